//! A table of a thread's objects of one kind, by number.

use doorbell_verbs::VerbsError;
use std::cell::RefCell;
use std::rc::Rc;

/// Objects by number. Numbers are never reused, so the number of a removed object stays invalid.
pub(crate) struct HandleTable<T> {
    kind: &'static str,
    entries: RefCell<Vec<Option<Rc<T>>>>,
}

impl<T> HandleTable<T> {
    /// An empty table. Messages call an entry `kind`.
    pub(crate) fn new(kind: &'static str) -> HandleTable<T> {
        HandleTable { kind, entries: RefCell::new(Vec::new()) }
    }

    /// Adds an object and returns its number.
    pub(crate) fn insert(&self, object: T) -> Result<u32, VerbsError> {
        let mut entries = self.entries.borrow_mut();
        let number = u32::try_from(entries.len()).map_err(|_| {
            VerbsError::NoRoom(format!("a thread can create at most 2^32 objects of kind {}", self.kind))
        })?;
        entries.push(Some(Rc::new(object)));
        Ok(number)
    }

    /// The object with this number.
    pub(crate) fn get(&self, number: u32) -> Result<Rc<T>, VerbsError> {
        let entries = self.entries.borrow();
        let entry = entries.get(number as usize).and_then(Option::as_ref);
        entry
            .cloned()
            .ok_or_else(|| VerbsError::Invalid(format!("this thread has no {} {number}", self.kind)))
    }

    /// Removes the object with this number, if there is one. The object is destroyed once no other object
    /// holds it.
    pub(crate) fn remove(&self, number: u32) {
        let removed = self.entries.borrow_mut().get_mut(number as usize).and_then(Option::take);
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_number_names_nothing_for_good() {
        let table = HandleTable::new("thing");
        let first = table.insert('a').unwrap();
        table.remove(first);
        let second = table.insert('b').unwrap();
        assert_ne!(first, second);
        assert!(matches!(table.get(first), Err(VerbsError::Invalid(m)) if m == "this thread has no thing 0"));
        assert_eq!(*table.get(second).unwrap(), 'b');
        table.remove(7);
    }

    #[test]
    fn an_object_in_use_outlives_its_removal() {
        let table = HandleTable::new("thing");
        let number = table.insert(String::from("still here")).unwrap();
        let user = table.get(number).unwrap();
        table.remove(number);
        assert_eq!(*user, "still here");
    }
}
