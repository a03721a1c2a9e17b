//go:build !linux

package logpages

import "errors"

// Host opens no directory: only Linux's page cache can be dropped.
func Host(string) (Tree, error) { return nil, errors.ErrUnsupported }
