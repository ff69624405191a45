// Package rotation holds the rules by which a ring of data keys changes and by which a sidecar takes it up. It is pure: it reads no clock, no
// network and no randomness, so that the same code can be searched exhaustively, simulated and run.
//
// # The ring
//
// A ring is (epoch, generation, minting key m, verify set V with m in it, settings). It changes only in these steps, each of which raises the
// generation by one:
//
//	bootstrap   none -> new epoch, m = k   no sidecar holds a ring of this object
//	verify-new  V += k'                    no rotation under way, and one is due
//	mint-new    m := k'                    every live consumer acknowledges the ring that has k' in V
//	retire-old  V -= k                     every live consumer acknowledged the ring in which k' mints, and since then the last token
//	                                       under k has expired on every clock
//
// Between mint-new and retire-old stands one write that does not move the generation: it records when the acknowledgements were complete
// (ackedAt).
//
// # The two halves
//
// [Plan] is the controller's half: from one [Observation] it derives one [Decision], and [Apply] derives from that the status to write. Phase is
// never read, only derived, so that a crash or another leader at any point is harmless. [Member] is the sidecar's half: it says what to do next
// (get, load, report, drop keys, wait), and whether to serve.
//
// What ties the two together is that a member reports a ring only after it is in memory whole, serves only after a consistent read has shown
// that the ring it reported is still the ring, and that the controller counts reports by lists which it made after the ring was written.
package rotation
