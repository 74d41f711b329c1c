//! `<state>/log/proxy.log`: private and of bounded size; one older file is kept beside it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// Size at which the file is put aside, bytes.
const LOG_BYTES_MAX: u64 = 1024 * 1024;

/// A file that is put aside when it has grown.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
}

impl LogFile {
    /// Opens it and goes on at its end.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = append(&path)?;
        let written = file.metadata()?.len();
        Ok(Self { path, file, written })
    }

    /// The file as it is now, for what a panic says.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn put_aside(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        self.file = append(&self.path)?;
        self.written = 0;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written >= LOG_BYTES_MAX {
            self.put_aside()?;
        }
        let count = self.file.write(bytes)?;
        self.written = self.written.saturating_add(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &std::path::Path) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_log_never_outgrows_two_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("proxy.log");
        let line = vec![b'x'; 64 * 1024];
        for _ in 0..3 {
            let mut log = LogFile::open(path.clone()).unwrap();
            for _ in 0..20 {
                log.write_all(&line).unwrap();
            }
        }
        let sizes: Vec<u64> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|size| *size <= LOG_BYTES_MAX + 64 * 1024), "{sizes:?}");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
