//! The messages of the soak. A message's bytes follow from its sender, its way and its number.

/// The queues through which a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Way {
    /// RC to an SRQ, with a CQ that other QPs use too.
    Srq,
    Ud,
    /// RC to a receive queue and a CQ of its own. One-sided operations go this way too.
    Rc,
    /// UC with a CQ that other QPs use too.
    Uc,
    /// RC for requests that the responder refuses.
    Fault,
}

impl Way {
    pub(super) const ALL: [Way; 5] = [Way::Srq, Way::Ud, Way::Rc, Way::Uc, Way::Fault];

    pub(super) fn from(number: u64) -> Option<Way> {
        Way::ALL.get(number as usize).copied()
    }
}

/// Bytes of a message's header: sender, way, number and length. All later bytes follow from the header.
pub(super) const HEAD: usize = 16;
/// Bytes of the longest message.
pub(super) const LONGEST: usize = 1000;
const LENGTHS: [usize; 6] = [HEAD, 100, 200, 300, 640, LONGEST];

/// The length in bytes of the message with this number.
pub(super) fn length(number: u32) -> usize {
    LENGTHS[number as usize % LENGTHS.len()]
}

fn byte(sender: u32, way: Way, number: u32, at: usize) -> u8 {
    let mixed =
        (u64::from(sender) << 40 ^ (way as u64) << 32 ^ u64::from(number)).wrapping_add(at as u64 >> 3);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (8 * (at & 7))) as u8
}

/// Writes the message to the beginning of `to`, and returns the message's length.
pub(super) fn write(to: &mut [u8], sender: u32, way: Way, number: u32) -> usize {
    let len = length(number);
    for (at, word) in [sender, way as u32, number, len as u32].into_iter().enumerate() {
        to[4 * at..4 * at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    for (at, to) in to[..len].iter_mut().enumerate().skip(HEAD) {
        *to = byte(sender, way, number, at);
    }
    len
}

/// Returns a message's sender, way and number. Returns an error if a byte is wrong.
pub(super) fn read(message: &[u8]) -> Result<(u32, Way, u32), String> {
    let word = |at: usize| {
        let bytes = message.get(4 * at..4 * at + 4).unwrap_or(&[0; 4]);
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let (sender, number) = (word(0), word(2));
    let way = Way::from(word(1).into()).ok_or_else(|| format!("no message: {:x?}", message.get(..HEAD)))?;
    if message.len() != length(number) || word(3) as usize != message.len() {
        return Err(format!("message {number} of {sender} by {way:?} has {} bytes", message.len()));
    }
    let wrong = (HEAD..message.len()).find(|&at| message[at] != byte(sender, way, number, at));
    match wrong {
        Some(at) => Err(format!("byte {at} of message {number} of {sender} by {way:?} is wrong")),
        None => Ok((sender, way, number)),
    }
}
