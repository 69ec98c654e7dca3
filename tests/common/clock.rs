//! Wall clocks that jump. A program is the real one; what it calls for the time is not.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

pub const HOUR_SECONDS: i64 = 3_600;

/// A clock for one program.
pub struct Clock {
    file: File,
    /// What the program has to be started with.
    pub environment: Vec<(String, String)>,
}

impl Clock {
    /// A clock named `name`, by a library that is built for it in `folder`.
    pub fn new(folder: &tempfile::TempDir, name: &str) -> Clock {
        // The database runs as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let (library, source) = (folder.path().join("clock.so"), "outage/clock.c");
        if !library.exists() {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(source);
            let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
            assert!(built.expect("a C compiler, which the build wants anyhow").success());
        }
        let path = folder.path().join(name);
        let file = File::create(&path).expect("a file");
        let text = |path: &Path| path.display().to_string();
        let environment = vec![("LD_PRELOAD".to_owned(), text(&library)), ("CLOCK_JUMPS".to_owned(), text(&path))];
        let mut clock = Clock { file, environment };
        clock.set(0);
        clock
    }

    /// So many seconds away from the true time, from now on.
    pub fn set(&mut self, seconds: i64) {
        self.file.rewind().and_then(|()| self.file.write_all(&seconds.to_ne_bytes())).expect("it can be written");
    }
}
