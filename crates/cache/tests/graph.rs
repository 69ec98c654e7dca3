//! Transaction graphs against worked examples (`testdata/vectors/detox.json`) and against trying everything.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_cache::graph::{
    Graph, GroupFrequency, Groups, Load, POWERSET_VERTICES_MAX, Scorer, Scratch, Thr, Vertex, VertexSet,
};
use proptest::prelude::*;
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/vectors/detox.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors are readable")).expect("JSON")
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * b.abs().max(1.0)
}

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// A graph of the vectors with the names of its vertices.
struct Named {
    names: Vec<String>,
    graph: Graph,
}

impl Named {
    fn of(case: &Value) -> Named {
        let text = |value: &Value| value.as_str().expect("a name").to_owned();
        let names: Vec<String> = list(&case["vertices"]).iter().map(text).collect();
        let at = |value: &Value| names.iter().position(|name| *name == text(value)).expect("a vertex") as u16;
        let edges: Vec<(u16, u16)> = list(&case["edges"]).iter().map(|edge| (at(&edge[0]), at(&edge[1]))).collect();
        let vertex = |name: &String| Vertex { name: name.clone(), writes: false };
        let graph = Graph::new(names.iter().map(vertex).collect(), &edges).expect("a graph");
        Named { names, graph }
    }

    fn at(&self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).expect("a vertex")
    }

    fn set(&self, keys: &Value) -> VertexSet {
        list(keys).iter().map(|key| self.at(key.as_str().expect("a name"))).collect()
    }

    /// `{}` or `a,b`.
    fn set_of_text(&self, text: &str) -> VertexSet {
        text.split(',').filter(|name| *name != "{}").map(|name| self.at(name)).collect()
    }

    fn by_vertex(&self, map: &Value) -> Vec<f64> {
        self.names.iter().map(|name| map[name].as_f64().expect("a number for each vertex")).collect()
    }
}

fn loads(frequency: &[f64], size: &[u64]) -> Vec<Load> {
    frequency.iter().zip(size).map(|(&frequency, &size)| Load::Keys { frequency, size }).collect()
}

#[test]
fn figures_have_their_lengths_and_groups() {
    let vectors = vectors();
    for figure in ["fig1_GetLinkedAccounts", "fig4_SmallBank_Balance", "fig6a", "fig7a", "fig7b", "n_shape"] {
        let case = &vectors[figure];
        let named = Named::of(case);
        let length = named.graph.critical_length(&VertexSet::EMPTY);
        assert_eq!(length as usize, number(&case["critical_length_empty"]), "{figure}");
        for (keys, after) in case["L"].as_object().into_iter().flatten() {
            assert_eq!(
                named.graph.critical_length(&named.set_of_text(keys)) as usize,
                number(after),
                "{figure}: {keys}"
            );
        }
        let groups = Groups::of(&named.graph, POWERSET_VERTICES_MAX).expect("small");
        let ours: BTreeSet<(VertexSet, u32)> = groups.list().iter().map(|group| (group.vertices, group.hits)).collect();
        let expected = |group: &Value| {
            assert_eq!(length as usize - number(&group["critical_length_after"]), number(&group["transactional_hits"]));
            (named.set(&group["keys"]), number(&group["transactional_hits"]) as u32)
        };
        assert_eq!(ours, list(&case["complete_groups"]).iter().map(expected).collect(), "{figure}");
        assert_eq!(named.graph.complete_groups_count(), Some(ours.len() as u128), "{figure}");
    }
}

#[test]
fn figures_have_their_scores() {
    let vectors = vectors();
    for figure in ["fig6a", "fig7a", "fig7b"] {
        let case = &vectors[figure];
        let named = Named::of(case);
        let (frequency, sizes) = (named.by_vertex(&case["F"]), vec![1; named.names.len()]);
        let (scorer, mut scratch) = (Scorer::new(Arc::new(named.graph.clone())), Scratch::default());
        scorer.score(&loads(&frequency, &sizes), &mut scratch);
        let expected = named.by_vertex(&case["instance_scores"]);
        assert!(scratch.scores().iter().zip(&expected).all(|(a, b)| near(*a, *b)), "{figure}: {:?}", scratch.scores());
        let groups = Groups::of(&named.graph, POWERSET_VERTICES_MAX).expect("small");
        let listed = groups.instance_scores(GroupFrequency::Min, &frequency, &sizes);
        assert!(listed.iter().zip(&expected).all(|(a, b)| near(*a, *b)), "{figure}: {listed:?}");
        for (place, pick) in case["greedy_picks"].as_array().into_iter().flatten().enumerate() {
            let ours = scratch.picks()[place];
            assert_eq!(ours.vertices, named.set(&pick["keys"]), "{figure}");
            assert!(near(ours.score, pick["score"].as_f64().expect("a score")), "{figure}");
        }
        for group in case["SCORE_G"].as_array().into_iter().flatten() {
            let keys = named.set(&group["keys"]);
            let hits = groups.list().iter().find(|group| group.vertices == keys).expect("complete").hits;
            let mut of_keys: Vec<f64> = keys.iter().map(|v| frequency[v]).collect();
            let score = GroupFrequency::Min.of(&mut of_keys) * f64::from(hits) / keys.len() as f64;
            assert!(near(score, group["score"].as_f64().expect("a score")), "{figure}: {group}");
        }
    }
}

/// Section 5.1's example: four groups are scored instead of fifteen.
#[test]
fn compressed_groups_of_figure_7b() {
    let vectors = vectors();
    let case = &vectors["fig7b"];
    let named = Named::of(case);
    let (scorer, mut scratch) = (Scorer::new(Arc::new(named.graph.clone())), Scratch::default());
    let best = scorer.best_by_reduction(&loads(&named.by_vertex(&case["F"]), &[1; 8]), &mut scratch);
    assert_eq!(named.graph.compressed_groups_count(), Some(number(&case["compressed_count"]) as u128));
    let expected = list(&case["best_per_compressed"]);
    assert_eq!(best.len(), expected.len());
    for (ours, expected) in best.iter().zip(expected) {
        assert_eq!(ours.vertices, named.set(&expected["keys"]));
        assert!(near(ours.score, expected["score"].as_f64().expect("a score")));
    }
}

#[test]
fn interchangeable_as_the_figures_say() {
    let vectors = vectors();
    for (figure, classes) in [("fig7a", "interchangeable"), ("fig7b", "interchangeable_classes")] {
        let named = Named::of(&vectors[figure]);
        let expected: BTreeSet<VertexSet> =
            list(&vectors[figure][classes]).iter().map(|keys| named.set(keys)).collect();
        let ours = Scorer::new(Arc::new(named.graph.clone())).classes();
        assert_eq!(ours.len(), 1, "{figure}");
        assert_eq!(ours[0].iter().copied().collect::<BTreeSet<_>>(), expected, "{figure}");
    }
    let named = Named::of(&vectors["fig6a"]);
    let vacuous = &vectors["definition9_vacuous"];
    let groups = Groups::of(&named.graph, POWERSET_VERTICES_MAX).expect("small");
    for pair in list(&vacuous["satisfies_the_words_of_definition_9_only_vacuously"]) {
        assert!(!groups.interchangeable(&named.set(&pair[0]), &named.set(&pair[1])), "{pair}");
    }
    let pair = &vacuous["interchangeable_nonvacuous"];
    assert!(groups.interchangeable(&named.set(&pair[0]), &named.set(&pair[1])));
}

#[test]
fn rates_are_definitions_6_and_7() {
    let vectors = vectors();
    let named = Named::of(&vectors["fig4_SmallBank_Balance"]);
    for (keys, rate) in vectors["fig4_SmallBank_Balance"]["individual_thr"].as_object().expect("rates") {
        let mut thr = Thr::default();
        thr.add(named.graph.critical_length(&VertexSet::EMPTY), named.graph.critical_length(&named.set_of_text(keys)));
        assert_eq!(thr.rate(), rate.as_f64(), "{keys}");
    }
    let (mut thr, sequence) = (Thr::default(), &vectors["thr_sequence"]);
    for transaction in list(&sequence["transactions"]) {
        thr.add(number(&transaction["L0"]) as u32, number(&transaction["L"]) as u32);
    }
    assert_eq!(thr.rate(), sequence["thr"].as_f64());
}

/// Microbenchmark 1: a -> b, a -> c -> d -> ..
fn microbenchmark_1(vertices: u16) -> Graph {
    let edges: Vec<(u16, u16)> = [(0, 1), (0, 2)].into_iter().chain((3..vertices).map(|v| (v - 1, v))).collect();
    Graph::plain(usize::from(vertices), &edges).expect("a graph")
}

#[test]
fn microbenchmark_1_has_as_many_groups_as_the_paper_says() {
    let vectors = vectors();
    for (vertices, count) in vectors["micro1_counts"]["n_to_count"].as_object().expect("counts") {
        let graph = microbenchmark_1(vertices.parse().expect("a number"));
        assert_eq!(graph.complete_groups_count(), count.as_u64().map(u128::from), "{vertices} vertices");
        if graph.len() <= 12 {
            let listed = Groups::of(&graph, POWERSET_VERTICES_MAX).expect("small").list().len();
            assert_eq!(Some(listed as u128), graph.complete_groups_count());
        }
        // Section 8.3: a linear number is left.
        assert!(graph.compressed_groups_count().expect("fits") <= 3 * graph.len() as u128);
    }
}

#[test]
fn random_graphs_as_solved_by_brute_force() {
    let vectors = vectors();
    for (at, case) in list(&vectors["random_dags"]["cases"]).iter().enumerate() {
        let numbers = |name: &str| list(&case[name]).iter().map(number).collect::<Vec<_>>();
        let edges: Vec<(u16, u16)> =
            list(&case["edges"]).iter().map(|edge| (number(&edge[0]) as u16, number(&edge[1]) as u16)).collect();
        let graph = Graph::plain(number(&case["n"]), &edges).expect("a graph");
        let set = |keys: &Value| list(keys).iter().map(number).collect::<VertexSet>();
        assert_eq!(graph.critical_length(&VertexSet::EMPTY) as usize, number(&case["critical_length"]), "case {at}");
        let listed = Groups::of(&graph, POWERSET_VERTICES_MAX).expect("small");
        let ours: BTreeSet<VertexSet> = listed.list().iter().map(|group| group.vertices).collect();
        assert_eq!(ours, list(&case["complete_groups"]).iter().map(set).collect(), "case {at}");
        let sizes: Vec<u64> = numbers("size").into_iter().map(|size| size as u64).collect();
        let frequency: Vec<f64> = numbers("F").into_iter().map(|f| f as f64).collect();
        let (scorer, mut scratch) = (Scorer::new(Arc::new(graph)), Scratch::default());
        // With all frequencies equal, the best score of each reduction says what it costs.
        let best = scorer.best_by_reduction(&loads(&vec![1.0; sizes.len()], &sizes), &mut scratch);
        let costs: Vec<f64> = best.iter().enumerate().map(|(place, pick)| (place + 1) as f64 / pick.score).collect();
        let expected: Vec<usize> = numbers("min_cost_to_reach_length").into_iter().rev().skip(1).collect();
        assert!(costs.iter().zip(&expected).all(|(a, b)| near(*a, *b as f64)), "case {at}: {costs:?}");
        scorer.score(&loads(&frequency, &sizes), &mut scratch);
        for (ours, expected) in scratch.picks().iter().zip(list(&case["greedy_picks"])) {
            assert_eq!(ours.vertices, set(&expected[0]), "case {at}");
            assert!(near(ours.score, expected[1].as_f64().expect("a score")), "case {at}");
        }
        for (ours, expected) in scratch.scores().iter().zip(list(&case["instance_scores"])) {
            assert!(near(*ours, expected.as_f64().expect("a score")), "case {at}: {:?}", scratch.scores());
        }
    }
}

/// A graph, and what a transaction asked for.
fn cases() -> impl Strategy<Value = (Graph, Vec<Load>)> {
    let vertex = prop_oneof![
        1 => Just(None),
        8 => (1u32..40, 1u64..5).prop_map(Some),
    ];
    (2usize..8)
        .prop_flat_map(move |count| {
            let bits = prop::collection::vec(prop::bool::weighted(0.35), count * (count - 1) / 2);
            let names = Just((0..count as u16).collect::<Vec<_>>()).prop_shuffle();
            (bits, names, prop::collection::vec((vertex.clone(), prop::bool::weighted(0.1)), count))
        })
        .prop_map(|(bits, names, vertices)| {
            let pairs = (0..names.len()).flat_map(|to| (0..to).map(move |from| (from, to)));
            let edges: Vec<(u16, u16)> =
                pairs.zip(bits).filter(|(_, bit)| *bit).map(|((from, to), _)| (names[from], names[to])).collect();
            let writes = vertices.iter().map(|&(_, writes)| Vertex { name: "v".into(), writes });
            let graph = Graph::new(writes.collect(), &edges).expect("edges lead forwards");
            let load = |&(keys, _): &(Option<(u32, u64)>, bool)| match keys {
                Some((frequency, size)) => Load::Keys { frequency: f64::from(frequency), size },
                None => Load::Absent,
            };
            (graph, vertices.iter().map(load).collect())
        })
}

fn subsets(count: usize) -> impl Iterator<Item = VertexSet> {
    (0u32..1 << count).map(move |bits| (0..count).filter(|v| bits >> v & 1 == 1).collect())
}

/// Everything that a vertex set would mean, by the definitions.
struct Naive<'a> {
    graph: &'a Graph,
    loads: &'a [Load],
    absent: VertexSet,
}

impl Naive<'_> {
    fn new<'a>(graph: &'a Graph, loads: &'a [Load]) -> Naive<'a> {
        let absent = (0..graph.len()).filter(|&v| loads[v] == Load::Absent).collect();
        Naive { graph, loads, absent }
    }

    fn length(&self, cached: &VertexSet) -> u32 {
        self.graph.critical_length(&cached.union(&self.absent))
    }

    fn hits(&self, cached: &VertexSet) -> u32 {
        self.length(&VertexSet::EMPTY) - self.length(cached)
    }

    /// Least frequency and size; none if something can't be cached.
    fn measure(&self, cached: &VertexSet) -> Option<(f64, u64)> {
        let mut all = (f64::INFINITY, 0);
        for v in cached.iter() {
            match self.loads[v] {
                Load::Keys { frequency, size } if !self.graph.vertices()[v].writes => {
                    all = (all.0.min(frequency), all.1 + size);
                }
                _ => return None,
            }
        }
        Some(all)
    }

    fn score(&self, cached: &VertexSet) -> Option<f64> {
        let (frequency, size) = self.measure(cached)?;
        Some(frequency * f64::from(self.hits(cached)) / size as f64)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The test of one group in O(V+E) is definition 8.
    #[test]
    fn completeness_is_definition_8((graph, _) in cases()) {
        for group in subsets(graph.len()) {
            let length = graph.critical_length(&group);
            let by_definition = subsets(graph.len())
                .filter(|sub| sub.is_subset(&group) && *sub != group)
                .all(|sub| length < graph.critical_length(&sub));
            prop_assert_eq!(graph.is_complete(&group), by_definition, "{:?} in {:?}", group, graph.edges());
        }
    }

    /// Counting gives as many as listing, and classes hold what definition 9 says.
    #[test]
    fn counts_and_classes_are_those_of_the_list((graph, _) in cases()) {
        let groups = Groups::of(&graph, POWERSET_VERTICES_MAX).expect("small");
        prop_assert_eq!(graph.complete_groups_count(), Some(groups.list().len() as u128), "{:?}", graph.edges());
        prop_assert!(graph.compressed_groups_count() <= graph.complete_groups_count());
        for class in Scorer::new(Arc::new(graph.clone())).classes() {
            for (place, one) in class.iter().enumerate() {
                for other in &class[..place] {
                    let writes = one.union(other).iter().any(|v| graph.vertices()[v].writes);
                    prop_assert!(!writes, "{:?} with a write in {:?}", class, graph.edges());
                    // One that never shortens anything is in no complete group.
                    let occurs = groups.list().iter().any(|group| one.is_subset(&group.vertices));
                    prop_assert!(!occurs || groups.interchangeable(one, other), "{:?}", graph.edges());
                }
            }
        }
    }

    /// Each step takes what no superset that saves more has a higher score than; and it ends when nothing saves more.
    #[test]
    fn every_pick_is_the_best((graph, loads) in cases()) {
        let naive = Naive::new(&graph, &loads);
        let mut scratch = Scratch::default();
        Scorer::new(Arc::new(graph.clone())).score(&loads, &mut scratch);
        let mut chosen = VertexSet::EMPTY;
        let mut expected = vec![0.0; graph.len()];
        let best_beyond = |chosen: &VertexSet| {
            let more = |set: &VertexSet| chosen.is_subset(set) && naive.hits(set) > naive.hits(chosen);
            let scores = subsets(graph.len()).filter(more).filter_map(|set| naive.score(&set));
            scores.fold(None, |best: Option<f64>, score| Some(best.map_or(score, |best| best.max(score))))
        };
        for pick in scratch.picks() {
            prop_assert!(chosen.is_subset(&pick.vertices) && naive.hits(&pick.vertices) > naive.hits(&chosen));
            prop_assert!(near(naive.score(&pick.vertices).expect("can be cached"), pick.score));
            let best = best_beyond(&chosen);
            let is_best = best.is_some_and(|best| near(best, pick.score));
            prop_assert!(is_best, "{best:?} beats {pick:?} in {:?}", graph.edges());
            // Nothing in it is there for nothing.
            for v in pick.vertices.without(&chosen).iter() {
                let mut less = pick.vertices;
                less.remove(v);
                prop_assert!(naive.hits(&less) < naive.hits(&pick.vertices));
                expected[v] = pick.score;
            }
            chosen = pick.vertices;
        }
        prop_assert_eq!(best_beyond(&chosen), None);
        prop_assert_eq!(scratch.scores(), &expected[..]);
    }

    /// The cheapest set for each reduction, with a frequency that all must have.
    #[test]
    fn the_best_of_each_reduction_is_the_best((graph, loads) in cases()) {
        let naive = Naive::new(&graph, &loads);
        let best = Scorer::new(Arc::new(graph.clone())).best_by_reduction(&loads, &mut Scratch::default());
        for hits in 1..=graph.len() as u32 {
            let of_hits = subsets(graph.len()).filter(|set| naive.hits(set) >= hits).filter_map(|set| {
                let (frequency, size) = naive.measure(&set)?;
                Some(frequency * f64::from(hits) / size as f64)
            });
            let expected = of_hits.fold(0.0, f64::max);
            let ours = best.get(hits as usize - 1);
            prop_assert!(near(ours.map_or(0.0, |pick| pick.score), expected), "{hits} hits in {:?}", graph.edges());
            if let Some(pick) = ours {
                prop_assert!(naive.hits(&pick.vertices) >= hits);
            }
        }
    }
}
