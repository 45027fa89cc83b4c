//! Checks of ping-pong.

use crate::check::Check;
use crate::deployed;
use doorbell_systems::ping_pong::PingPong;
use doorbell_verbs::Cluster;

/// The checks of ping-pong.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    vec![deployed::check::<PingPong, C>()]
}
