// Package forecast says what a load will be some minutes ahead, and whether that can be trusted.
//
//	load by time ─▶ Series ─▶ Prediction{Middle, High, Trusted, Reason}
//
// The load at a phase of a period, a day or a week, is taken as the median of the last periods at that phase, times how much more than that the load was
// of late. High adds a quantile of the forecast's own errors.
//
// Every forecast is checked when its time has come, beside "the same as now". It is trusted only while its error of the last days is the smaller one; of
// the periods the one with the least error is taken. What is not trusted must not be used: a caller takes the live value alone.
//
// Invariants: a prediction depends on loads before now alone. Without two whole periods there is none. What is not known is no load.
//
// A Checkpoint has a series outlast its process: a restored one predicts the same to the last digit, and one that is damaged or old is refused with a reason.
//
// The package does not scale anything: whoever scales takes the greater of the live value and High, so that a wrong forecast costs capacity, never
// latency.
package forecast
