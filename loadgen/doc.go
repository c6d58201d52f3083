// Package loadgen answers what a service delivered at an offered rate: it
// drives one arm through the steps of a ladder and says what was sent, what came
// back and when. Why the service was that fast is not its question.
//
// The driver is an open loop on an absolute schedule: request i is due at
// t0 + i/rate (or at the i-th arrival of a seeded Poisson process) whatever
// happened to the requests before it, and the schedule is never re-planned.
//
//   - A request that is late is sent at once and its lateness recorded.
//   - A request above the in-flight cap is counted as overflow and never sent.
//     Nothing queues: deciding costs the same however far behind the service is.
//   - Response time runs from the intended instant, service time from started,
//     when the request was handed to a client that holds a free slot. The first
//     is what a user would have waited; the second leaves out the wait before
//     the send, which is how a stalled service looks fast to a closed loop.
//
// A step's window runs from its first planned send plus settle to its last
// planned send. Both edges are known before the step starts, so that agents can
// be armed ahead and the edges of client and agent are the same instants.
//
// Instants are CLOCK_MONOTONIC nanoseconds of this host.
package loadgen
