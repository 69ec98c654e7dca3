//! What there is at first: the same from the same [`Scale`], piece by piece, so that nothing of it has to be kept.

use fastrand::Rng;

use crate::generate::draw::Zipf;

/// The exponent of popularity: a member of rank i (from 1) is drawn with a probability like i^-0.73, so that a fifth of
/// the members gets 62 % (of 10,000 members) to 63 % (of 100,000) of the attention.
pub const POPULARITY: f64 = 0.73;

/// Bytes of a field of text.
const TEXT_BYTES: usize = 100;

/// Dates lie in the 50 million seconds after this moment, in ms since the Unix epoch.
const DATE_MS_MIN: u64 = 1_250_000_000_000;
const DATE_MS_RANGE: u64 = 50_000_000_000;

/// Fields of a profile beside its key.
pub const PROFILE: [&str; 11] =
    ["username", "pw", "fname", "lname", "gender", "dob", "jdate", "ldate", "address", "email", "tel"];

/// Fields of a resource beside its key.
pub const RESOURCE: [&str; 5] = ["creatorid", "walluserid", "type", "body", "doc"];

/// Fields of a comment beside its keys.
pub const COMMENT: [&str; 5] = ["creatorid", "modifierid", "timestamp", "type", "content"];

/// Members and resources are numbered in memory, 4 bytes for each and more.
const MEMBERS_MAX: u32 = 10_000_000;
const RESOURCES_MAX: u64 = 100_000_000;

/// How large the network is at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Members, numbered from 0.
    pub members: u32,
    /// Links of each, an even number (BG's phi): half of them to the members after it, half from those before.
    pub friends: u32,
    /// Which share of the links is a friendship; the others are invitations that wait.
    pub confirmed: f64,
    /// Resources that each has made (BG's rho).
    pub resources: u32,
    /// Comments on each resource.
    pub comments: u32,
    /// KB of a profile's image, beside which there is a small one of 2 KB; 0 for none.
    pub image_kb: u32,
    /// What all of it is drawn from.
    pub seed: u64,
}

impl Default for Scale {
    /// Small enough to be loaded in seconds. The papers have 100,000 members with 100 friends and 100 resources.
    fn default() -> Scale {
        Scale { members: 1000, friends: 10, confirmed: 0.8, resources: 5, comments: 1, image_kb: 0, seed: 0 }
    }
}

impl Scale {
    /// What is wrong with it, in words for whoever chose it.
    pub fn problem(&self) -> Option<String> {
        let resources = u64::from(self.members) * u64::from(self.resources);
        match self {
            Scale { members: 0..2, .. } => Some("BG needs two members at least".into()),
            Scale { friends, .. } if friends % 2 > 0 => Some(format!("{friends} friends: give an even number")),
            Scale { friends, members, .. } if friends >= members => {
                Some(format!("{friends} friends of each among {members} members: give fewer friends or more members"))
            }
            Scale { confirmed, .. } if !(0.0..=1.0).contains(confirmed) => {
                Some(format!("{confirmed} is no share of confirmed friendships: give 0 to 1"))
            }
            Scale { members, .. } if *members > MEMBERS_MAX => {
                Some(format!("{members} members: give at most {MEMBERS_MAX}, which are kept in memory"))
            }
            _ if resources > RESOURCES_MAX => {
                Some(format!("{resources} resources in all: at most {RESOURCES_MAX} are kept in memory; give fewer"))
            }
            _ => None,
        }
    }
}

/// What is drawn from one seed for one purpose is drawn from a generator of its own.
#[derive(Clone, Copy)]
enum Purpose {
    Profile = 1,
    Link,
    Resource,
    Wall,
    Comment,
    Popularity,
}

/// The network at first, and who is how popular.
pub struct Data {
    scale: Scale,
    zipf: Zipf,
    /// By rank of popularity, the member.
    ranked: Vec<u32>,
    /// Resources by the wall that they are on: `on_walls[walls[m]..walls[m + 1]]` are those of member m, oldest first.
    walls: Vec<u32>,
    on_walls: Vec<u32>,
}

impl Data {
    /// The network of this scale, which has no [`Scale::problem`].
    pub fn new(scale: Scale) -> Data {
        let mut ranked: Vec<u32> = (0..scale.members).collect();
        // Neighbours are friends; ranks are spread so that popular members are not each other's friends alone.
        rng(&scale, Purpose::Popularity, 0).shuffle(&mut ranked);
        let zipf = Zipf::new(u64::from(scale.members), POPULARITY);
        let mut data = Data { scale, zipf, ranked, walls: Vec::new(), on_walls: Vec::new() };
        let resources = scale.members.saturating_mul(scale.resources);
        let mut counts = vec![0; scale.members as usize + 1];
        (0..resources).for_each(|rid| counts[data.wall_of(rid) as usize + 1] += 1);
        (1..counts.len()).for_each(|at| counts[at] += counts[at - 1]);
        let (mut next, mut on_walls) = (counts.clone(), vec![0; resources as usize]);
        for rid in 0..resources {
            let place = &mut next[data.wall_of(rid) as usize];
            on_walls[*place as usize] = rid;
            *place += 1;
        }
        data.walls = counts;
        data.on_walls = on_walls;
        data
    }

    /// Its scale.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// A member, the popular ones more often.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        self.ranked[self.zipf.draw(rng) as usize]
    }

    /// The links that a member has made: to whom, and whether each is a friendship already.
    pub fn links(&self, member: u32) -> impl Iterator<Item = (u32, bool)> + use<> {
        let scale = self.scale;
        let mut rng = rng(&scale, Purpose::Link, u64::from(member));
        (1..=scale.friends / 2).map(move |step| {
            let other = (u64::from(member) + u64::from(step)) % u64::from(scale.members);
            (other as u32, rng.f64() < scale.confirmed)
        })
    }

    /// The resources on a member's wall, oldest first.
    pub fn wall(&self, member: u32) -> &[u32] {
        let at = |member: usize| self.walls[member] as usize;
        &self.on_walls[at(member as usize)..at(member as usize + 1)]
    }

    /// Who has made a resource.
    pub fn creator_of(&self, rid: u32) -> u32 {
        rid / self.scale.resources.max(1)
    }

    /// On whose wall a resource is.
    pub fn wall_of(&self, rid: u32) -> u32 {
        rng(&self.scale, Purpose::Wall, u64::from(rid)).u32(..self.scale.members)
    }

    /// Who has written a comment that was there at first.
    pub fn author_of(&self, rid: u32, mid: u32) -> u32 {
        let number = u64::from(rid) << 32 | u64::from(mid);
        rng(&self.scale, Purpose::Comment, number).u32(..self.scale.members)
    }

    /// A member's profile: fields with their values; `pic` and `tpic` at the end if there are images.
    pub fn profile(&self, member: u32) -> Vec<(&'static str, String)> {
        let mut rng = rng(&self.scale, Purpose::Profile, u64::from(member));
        let mut value = |field| match field {
            "dob" | "jdate" | "ldate" => date(&mut rng),
            "pic" => text(&mut rng, 1024 * self.scale.image_kb as usize),
            "tpic" => text(&mut rng, 2048),
            _ => text(&mut rng, TEXT_BYTES),
        };
        let images: &[&str] = if self.scale.image_kb > 0 { &["pic", "tpic"] } else { &[] };
        PROFILE.iter().chain(images).map(|field| (*field, value(field))).collect()
    }

    /// A resource: fields with their values.
    pub fn resource(&self, rid: u32) -> Vec<(&'static str, String)> {
        let mut rng = rng(&self.scale, Purpose::Resource, u64::from(rid));
        let mut value = |field| match field {
            "creatorid" => self.creator_of(rid).to_string(),
            "walluserid" => self.wall_of(rid).to_string(),
            _ => text(&mut rng, TEXT_BYTES),
        };
        RESOURCE.iter().map(|field| (*field, value(field))).collect()
    }

    /// A comment by `author`: fields with their values. The same whoever asks, and whenever.
    pub fn comment(&self, rid: u32, mid: u32, author: u32) -> Vec<(&'static str, String)> {
        let mut rng = rng(&self.scale, Purpose::Comment, u64::from(rid) << 32 | u64::from(mid));
        let mut value = |field| match field {
            "creatorid" => self.creator_of(rid).to_string(),
            "modifierid" => author.to_string(),
            "timestamp" => date(&mut rng),
            _ => text(&mut rng, TEXT_BYTES),
        };
        COMMENT.iter().map(|field| (*field, value(field))).collect()
    }
}

/// A generator for one thing. What differs in scale only in how many there are is the same.
fn rng(scale: &Scale, purpose: Purpose, number: u64) -> Rng {
    // Splitmix64's steps: near numbers give far seeds.
    let mut seed = scale.seed ^ (purpose as u64) << 56;
    seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
    seed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Rng::with_seed((seed ^ seed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb))
}

fn text(rng: &mut Rng, bytes: usize) -> String {
    std::iter::repeat_with(|| rng.alphanumeric()).take(bytes).collect()
}

/// A moment as `yyyy/MM/dd HH:mm:ss`, in UTC.
fn date(rng: &mut Rng) -> String {
    let seconds = (DATE_MS_MIN + rng.u64(..DATE_MS_RANGE)) / 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a day counted from 1970-01-01: days in eras of 400 years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_fifth_of_the_members_gets_three_fifths_of_the_attention() {
        let data = Data::new(Scale { members: 10_000, resources: 0, ..Scale::default() });
        let mut counts = vec![0u32; 10_000];
        let mut rng = Rng::with_seed(1);
        (0..400_000).for_each(|_| counts[data.draw(&mut rng) as usize] += 1);
        counts.sort_unstable();
        let share = counts[8_000..].iter().sum::<u32>() as f64 / 400_000.0;
        assert!((0.61..0.64).contains(&share), "{share}");
    }

    #[test]
    fn links_pair_neighbours_and_are_confirmed_by_their_share() {
        let scale = Scale { members: 2000, friends: 20, confirmed: 0.3, ..Scale::default() };
        let data = Data::new(scale);
        let mut pairs = HashSet::new();
        let mut confirmed = 0;
        for member in 0..scale.members {
            for (other, is_confirmed) in data.links(member) {
                assert!((other + scale.members - member) % scale.members <= 10);
                assert!(pairs.insert((member.min(other), member.max(other))));
                confirmed += u32::from(is_confirmed);
            }
        }
        assert_eq!(pairs.len(), 20_000);
        assert!(confirmed.abs_diff(6_000) < 300, "{confirmed}");
    }

    #[test]
    fn walls_hold_each_resource_once() {
        let data = Data::new(Scale { members: 50, resources: 7, ..Scale::default() });
        let mut all: Vec<u32> = (0..50).flat_map(|member| data.wall(member).to_vec()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..350).collect::<Vec<_>>());
        assert!((0..50).all(|member| data.wall(member).iter().all(|rid| data.wall_of(*rid) == member)));
    }

    #[test]
    fn content_has_its_form_and_repeats() {
        let data = Data::new(Scale { image_kb: 1, ..Scale::default() });
        let profile = data.profile(7);
        assert_eq!(profile, data.profile(7));
        assert_ne!(profile, data.profile(8));
        let sizes: Vec<usize> = profile.iter().map(|(_, value)| value.len()).collect();
        assert_eq!(sizes, [100, 100, 100, 100, 100, 19, 19, 19, 100, 100, 100, 1024, 2048]);
        assert_eq!(data.resource(12)[0], ("creatorid", "2".to_owned()));
        assert_eq!(data.comment(12, 3, 9)[1], ("modifierid", "9".to_owned()));
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(14_467), (2009, 8, 11));
        assert_eq!((civil(11_016), civil(11_017)), ((2000, 2, 29), (2000, 3, 1)));
    }

    #[test]
    fn what_can_not_be_is_said() {
        let with = |change: fn(&mut Scale)| {
            let mut scale = Scale::default();
            change(&mut scale);
            scale.problem()
        };
        assert_eq!(with(|_| ()), None);
        assert!(with(|scale| scale.friends = 3).is_some());
        assert!(with(|scale| scale.friends = 1000).is_some());
        assert!(with(|scale| scale.members = 1).is_some());
        assert!(with(|scale| scale.confirmed = 1.5).is_some());
        assert!(with(|scale| (scale.members, scale.resources) = (100_000, 100_000)).is_some());
    }
}
