package parts

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sumsFile lists the digests of a part's files as sha256sum does. It lies beside the part's directory, whose name it begins with.
const sumsFile = ".sha256"

// verify compares the files of a part with the digests that were written when it was made. A part that is older than this check gets its digests now.
func verify(dir string) error {
	want, err := os.ReadFile(dir + sumsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return writeSums(dir)
	}
	if err != nil {
		return fmt.Errorf("digests of %s: %w", dir, err)
	}
	found, err := sums(dir)
	if err != nil {
		return fmt.Errorf("digests of %s: %w", dir, err)
	}
	if file := firstDifference(string(want), found); file != "" {
		return fmt.Errorf("%s: %s is not what it was when it was made: remove the directory and %s, and let make vm-parts make it anew", dir, file, filepath.Base(dir)+sumsFile)
	}
	return nil
}

func writeSums(dir string) error {
	text, err := sums(dir)
	if err == nil {
		err = os.WriteFile(dir+sumsFile, []byte(text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("digests of %s: %w", dir, err)
	}
	return nil
}

// sums are the digests of all regular files, and the targets of all links, in lexical order of their paths.
func sums(dir string) (string, error) {
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		sum := ""
		switch {
		case entry.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			sum = "-> " + target
		case entry.Type().IsRegular():
			if sum, err = fileDigest(path); err != nil {
				return err
			}
		default:
			sum = entry.Type().String()
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, name)
		return nil
	})
	return out.String(), err
}

// firstDifference is the first file of which two lists of digests say different things, "" where there is none.
func firstDifference(want, found string) string {
	files := func(list string) map[string]string {
		out := make(map[string]string)
		for lines := bufio.NewScanner(strings.NewReader(list)); lines.Scan(); {
			sum, name, _ := strings.Cut(lines.Text(), "  ")
			out[name] = sum
		}
		return out
	}
	was, is := files(want), files(found)
	first := ""
	note := func(name string) {
		if first == "" || name < first {
			first = name
		}
	}
	for name, sum := range was {
		if is[name] != sum {
			note(name)
		}
	}
	for name := range is {
		if _, known := was[name]; !known {
			note(name)
		}
	}
	return first
}
