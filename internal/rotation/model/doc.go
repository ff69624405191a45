// Package model searches the rotation protocol exhaustively. It is for tests only.
//
// Under search are the real rules, [rotation.Plan], [rotation.Apply] and [rotation.Member], in a small world: one key name, a few pods, one or two
// controllers, a person who edits the key, and whatever may go wrong between them. A state of the world is a small value; a step is one read, one write,
// one load or one fault. The search visits every state that some order of steps leads to within the budgets of a [Config], breadth first, and
// asserts the invariants in each:
//
//   - I1: a token within its ttl, minted by a ready pod, is accepted by every ready pod; the exemptions are those of the promise.
//   - I2: no ring lacks its minting key.
//   - I3: a key that left the ring does not return, nor does one that a process saw revoked return to its memory.
//   - I4: within an object and epoch every change of the ring raises its generation by one, and nothing else does.
//   - I5: no key is new while another is new or retires.
//   - I6: a run from here in which nothing fails any more and everybody does their part ends in phase Stable. Such a run is made from every state.
//   - I7: no rule panics, and Apply accepts every decision of Plan.
//
// The first state that breaks one is told with the shortest sequence of steps that leads to it.
//
// Nothing is sampled. What keeps the number of states small loses no behaviour:
//
//   - Rings, members and reports are interned; equal ones are one number. Pods are interchangeable, so worlds that differ in the order of pods are one.
//   - Time is relative. A state holds how long ago a key was acknowledged and how long a key's last token still lives, never what time it is.
//   - Every ready pod seals at every moment, and of all tokens under one key only the one that lives longest is kept: no rule looks at tokens, and if that
//     one is accepted, so are the others.
//   - A pod that is cut off is one whose steps are not taken for a while; a KMS that is down is one whose requests fail.
//   - A pass of a controller whose key was written meanwhile is dropped at once, as its write would be. For the same reason a pass begins with its lists: had the
//     key changed since it was read, the pass would be dropped. [Config.Fine] makes the reads of key and clock steps of their own all the same.
//   - Once a pass has made its lists, all that matters of them is whether they open the gate.
//
// What is not in the world, and is not promised either: a process that outlives its Pod object; clocks further apart than clockSkew; tokens refused by the
// tolerance of a clock, which is not counted as part of a ttl; a report deleted by hand while a process that died is still creating it, or while its pod
// is relabelled; tokens in flight when a status is restored whose keys the restored ring lacks or takes for new, and, where old events are in the world, pods that start
// after a restore. Pods that hold different material under one id, principals and pausing are left to the tests of the rules.
package model
