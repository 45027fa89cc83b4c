//! Runs the models.

use doorbell_soft_models::locks;

#[test]
fn lock_favourite_and_other() {
    assert!(locks::favourite_and_other() > 1);
}

#[test]
fn lock_two_favourites() {
    assert!(locks::two_favourites() > 1);
}

#[test]
fn lock_favourite_and_triers() {
    assert!(locks::favourite_and_triers() > 1);
}
