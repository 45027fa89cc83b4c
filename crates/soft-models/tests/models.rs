//! Runs the models.

use doorbell_soft_models::{completions, copies, locks, recvs, regions};

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

#[test]
fn completions_of_two_producers() {
    assert!(completions::two_producers() > 1);
}

#[test]
fn completions_forgotten() {
    assert!(completions::forgotten() > 1);
}

#[test]
fn completions_resized() {
    assert!(completions::resized() > 1);
}

#[test]
fn completions_asleep() {
    assert!(completions::asleep() > 1);
}

#[test]
fn completions_told_of_what_is_there() {
    assert!(completions::told_of_what_is_there() > 1);
}

#[test]
fn copies_revoked() {
    assert!(copies::revoked() > 1);
}

#[test]
fn copies_revoked_at_first() {
    assert!(copies::revoked_at_first() > 1);
}

#[test]
fn copies_of_two_requesters() {
    assert!(copies::two_requesters() > 1);
}

#[test]
fn recvs_of_one_sender() {
    assert!(recvs::one_sender() > 1);
}

#[test]
fn recvs_flushed() {
    assert!(recvs::flushed() > 1);
}

#[test]
fn recvs_of_two_senders() {
    assert!(recvs::two_senders() > 1);
}

#[test]
fn recvs_lane_ended() {
    assert!(recvs::lane_ended() > 1);
}

#[test]
fn recvs_answered() {
    assert!(recvs::answered() > 1);
}

#[test]
fn recvs_placed_in_turn() {
    assert!(recvs::placed_in_turn() > 1);
}

#[test]
fn recvs_placed_in_slot() {
    assert!(recvs::placed_in_slot() > 1);
}

#[test]
fn regions_changed_and_invalidated() {
    assert!(regions::changed_and_invalidated() > 1);
}
