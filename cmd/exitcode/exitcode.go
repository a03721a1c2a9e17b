// Package exitcode says with which code hilbert and hilbertd end: the one place that maps errors to codes.
//
// Data flow: a command returns an error; whoever knows its cause marks it (Mark, Usagef, BadInputf), and Of finds the mark, or judges by what Kubernetes' client and
// the network say. main hands the code to the operating system. For example, fmt.Errorf("explain: %w", notFound) ends with 4, however often it is wrapped.
//
// Invariants: each cause has a code of its own, no code changes its meaning in a later version, and the outermost mark counts. docs/reference/exit-codes.md is
// written from Table. It prints nothing, and ends no process.
package exitcode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Code is what a process ends with.
type Code int

// The codes. 1 is for what has no other code.
const (
	OK           Code = 0
	Failed       Code = 1
	Usage        Code = 2
	BadInput     Code = 3
	NotFound     Code = 4
	Unreachable  Code = 5
	NotPermitted Code = 6
	Negative     Code = 7
	Partial      Code = 8
	Warnings     Code = 9
	Interrupted  Code = 130
)

// Row is what one code means.
type Row struct {
	Code    Code
	Name    string
	Meaning string
	Example string
}

// Table returns all codes in order.
func Table() []Row {
	return []Row{
		{OK, "OK", "The command did what it was asked to do.", "`hilbert explain pod web-0`, whether the pod is placed or not"},
		{Failed, "Failed", "Something failed that has no other code; the message says what.", "the standard output cannot be written"},
		{Usage, "Usage", "The arguments or flags cannot be understood. Nothing was asked and nothing was read.", "`hilbert queue --limit -1`"},
		{BadInput, "BadInput", "A file or the standard input is not what it should be, or cannot be read.", "`hilbert config validate` of a file with an unknown field"},
		{NotFound, "NotFound", "What was named is not there: no such pod, node, queue, or API.", "`hilbert explain pod no/such`"},
		{Unreachable, "Unreachable", "The API server or hilbertd does not answer, or says that it cannot now. Trying again later may help.", "no leader"},
		{NotPermitted, "NotPermitted", "The credentials are not known, or do not permit the request.", "`hilbert snapshot` without the right to read snapshots"},
		{Negative, "Negative", "The command worked, and the answer is no.", "`hilbert sim --from` leaves a pod without a node; a scenario went another way; `hilbert doctor` found something broken"},
		{Partial, "Partial", "A part of the answer is missing, and the rest was printed.", "`hilbert version` while no hilbertd answers"},
		{Warnings, "Warnings", "The command worked, and found what somebody should look at, but nothing that is broken.", "`hilbert doctor` on Kubernetes 1.36"},
		{Interrupted, "Interrupted", "Ctrl-C or SIGTERM ended the command early. What was reached has been printed.", "`hilbert sim`, ended by Ctrl-C"},
	}
}

// String returns the code's name.
func (c Code) String() string {
	for _, row := range Table() {
		if row.Code == c {
			return row.Name
		}
	}
	return fmt.Sprintf("Code(%d)", int(c))
}

// marked is an error whose code is known.
type marked struct {
	code Code
	err  error
}

func (m *marked) Error() string { return m.err.Error() }
func (m *marked) Unwrap() error { return m.err }

// Mark returns err with a code; nil stays nil.
func Mark(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &marked{code, err}
}

// Usagef is fmt.Errorf for a mistake in the arguments.
func Usagef(format string, args ...any) error { return Mark(Usage, fmt.Errorf(format, args...)) }

// BadInputf is fmt.Errorf for a mistake in a file.
func BadInputf(format string, args ...any) error { return Mark(BadInput, fmt.Errorf(format, args...)) }

// Negativef is fmt.Errorf for an answer that is no.
func Negativef(format string, args ...any) error { return Mark(Negative, fmt.Errorf(format, args...)) }

// Of returns the code of an error: its mark, or what its cause says.
func Of(err error) Code {
	var m *marked
	var path *fs.PathError
	var network *net.OpError
	var address *url.Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &m):
		return m.code
	case apierrors.IsNotFound(err) || apierrors.IsGone(err):
		return NotFound
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return NotPermitted
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err):
		return Unreachable
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return BadInput
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.As(err, &network), errors.As(err, &address), errors.Is(err, context.DeadlineExceeded):
		return Unreachable
	case errors.As(err, &path):
		return BadInput
	}
	return Failed
}
