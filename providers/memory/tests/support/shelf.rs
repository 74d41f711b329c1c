//! A projection for tests: a folder with a file for each key, faults on demand, and a place to be killed at.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};

use agentspine_gate::Digest;
use agentspine_memory::{Fault, Key, Outcome, Projected, Projection};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Write,
    Read,
    Remove,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It never reaches the shelf.
    Unreached,
    /// It is done, and its answer is lost.
    AnswerLost,
    /// It is not done, and its answer is lost.
    Dropped,
    /// It says it did, and did not.
    Lies,
}

type Faults = Box<dyn FnMut(Call, &Key) -> Option<Wrong>>;

pub struct Shelf {
    dir: PathBuf,
    pub now_ms: Cell<i64>,
    pub faults: RefCell<Faults>,
    /// Called before and after the effect of every call, with the number of the place.
    pub place: RefCell<Box<dyn FnMut(u32)>>,
    places: Cell<u32>,
    pub calls: RefCell<Vec<Call>>,
}

impl Shelf {
    /// The shelf of a house, in a folder beside its ledger.
    pub fn new(house: &Path, now_ms: i64) -> Self {
        let dir = house.join("shelf");
        fs::create_dir_all(&dir).unwrap();
        Self {
            dir,
            now_ms: Cell::new(now_ms),
            faults: RefCell::new(Box::new(|_, _| None)),
            place: RefCell::new(Box::new(|_| ())),
            places: Cell::new(0),
            calls: RefCell::default(),
        }
    }

    /// From now on calls go wrong as this says.
    pub fn fail(&self, faults: impl FnMut(Call, &Key) -> Option<Wrong> + 'static) {
        *self.faults.borrow_mut() = Box::new(faults);
    }

    pub fn heal(&self) {
        self.fail(|_, _| None);
    }

    /// Everything that stands there, as `key = data`, sorted.
    pub fn contents(&self) -> Vec<String> {
        let files =
            fs::read_dir(&self.dir).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        let mut contents: Vec<String> = files.collect();
        contents.sort();
        contents
    }

    pub fn keys(&self) -> Vec<String> {
        self.contents().iter().map(|line| line.split_once(" = ").unwrap().0.to_owned()).collect()
    }

    /// Puts something there that is not ours.
    pub fn squat(&self, key: &Key, data: &str) {
        fs::write(self.file(key), format!("{} = {data}", text(key))).unwrap();
    }

    fn file(&self, key: &Key) -> PathBuf {
        self.dir.join(Digest::of(text(key).as_bytes()).to_hex())
    }

    fn place(&self) {
        self.places.set(self.places.get() + 1);
        (self.place.borrow_mut())(self.places.get());
    }

    fn call(&self, call: Call, key: &Key, effect: impl FnOnce(&Path) -> Outcome) -> Outcome {
        self.calls.borrow_mut().push(call);
        self.place();
        let wrong = (self.faults.borrow_mut())(call, key);
        let outcome = match wrong {
            Some(Wrong::Unreached) => Outcome::Undispatched(Fault::Unavailable),
            Some(Wrong::AnswerLost) => {
                effect(&self.file(key));
                Outcome::Unknown(Fault::Timeout)
            }
            Some(Wrong::Dropped) => Outcome::Unknown(Fault::Timeout),
            Some(Wrong::Lies) => Outcome::Done,
            None => effect(&self.file(key)),
        };
        self.place();
        outcome
    }
}

impl Projection for Shelf {
    fn write(&self, what: &Projected) -> Outcome {
        self.call(Call::Write, &what.key, |file| {
            if file.exists() {
                return Outcome::Unknown(Fault::Refused);
            }
            fs::write(file, format!("{} = {}", text(&what.key), what.data)).unwrap();
            Outcome::Done
        })
    }

    fn read(&self, key: &Key) -> Outcome {
        self.call(Call::Read, key, |file| match fs::read_to_string(file) {
            Ok(line) => Outcome::Found(Digest::of(line.split_once(" = ").unwrap().1.as_bytes())),
            Err(_) => Outcome::Absent,
        })
    }

    fn remove(&self, key: &Key) -> Outcome {
        self.call(Call::Remove, key, |file| match fs::remove_file(file) {
            Ok(()) => Outcome::Done,
            Err(_) => Outcome::Absent,
        })
    }

    fn now_ms(&self) -> i64 {
        self.now_ms.get()
    }
}

pub fn text(key: &Key) -> String {
    match key {
        Key::Record(name) => name.to_string(),
        Key::Relation(t) => format!("({}, {}, {})", t.subject, t.predicate.as_str(), t.object),
    }
}
