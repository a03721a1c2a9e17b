// Package tokenfile reads bearer tokens from files, as kubelets project them into pods.
//
// Read reads a file each time that its token is shown: kubelets replace tokens before they expire. It is bounded, and what it returns can stand in a header. What is no token is an error
// that says why, and never an empty token, by which a server would take the caller for nobody.
package tokenfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Max bounds a token, in bytes.
const Max = 16 << 10

// Read is the token in a file.
func Read(path string) (token string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, Max+1))
	if err != nil {
		return "", err
	}
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return "", fmt.Errorf("%s is empty", path)
	case len(text) > Max:
		return "", fmt.Errorf("%s has more than %d bytes, and is no token", path, Max)
	case bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s has characters in it that no token has", path)
	}
	return string(text), nil
}
