package logpages

import (
	"errors"
	"path"
	"strings"
)

// pattern is a directory of the configuration: the part before the first wildcard, and patterns for the names of directories below that.
type pattern struct {
	base  string
	names []string
}

func newPattern(directory string) pattern {
	before, _, wild := cutWild(directory)
	if !wild {
		return pattern{base: directory}
	}
	base := before[:strings.LastIndexByte(before, '/')]
	return pattern{base: base, names: strings.Split(strings.TrimPrefix(directory[len(base):], "/"), "/")}
}

// cutWild cuts a path at its first wildcard.
func cutWild(text string) (before, after string, found bool) {
	at := strings.IndexAny(text, `*?[\`)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at:], true
}

// list finds the files of a directory: those of each folder, which is a match of the patterns or, without any, a directory just below the base. So a pod's folder is bounded by itself.
func (d *Dropper) list(directory int, tree Tree) (out []entry) {
	names := d.directories[directory].names
	folders := []string{"."}
	for _, name := range names {
		var next []string
		for _, folder := range folders {
			dirs, _ := d.entries(directory, tree, folder, maxFolders)
			for _, dir := range dirs {
				if matched, err := path.Match(name, path.Base(dir)); matched && err == nil && len(next) < maxFolders {
					next = append(next, dir)
				}
			}
		}
		folders = next
	}
	if len(names) == 0 {
		dirs, files := d.entries(directory, tree, ".", maxFolders)
		for _, file := range files[:min(len(files), maxFiles)] {
			out = append(out, entry{directory: directory, path: file})
		}
		folders = dirs
	}
	for _, folder := range folders {
		w := walk{d: d, directory: directory, tree: tree, room: maxFiles}
		w.below(folder, 0)
		out = append(out, w.found...)
	}
	return out
}

// walk collects the files of a folder and of all below it, as many as there is room for. Directories and files count alike.
type walk struct {
	d         *Dropper
	directory int
	tree      Tree
	room      int
	found     []entry
}

func (w *walk) below(folder string, depth int) {
	dirs, files := w.d.entries(w.directory, w.tree, folder, w.room)
	for _, file := range files {
		if w.room--; w.room < 0 {
			return
		}
		w.found = append(w.found, entry{directory: w.directory, path: file})
	}
	for _, dir := range dirs {
		if w.room--; w.room < 0 || depth+1 >= maxDepth {
			return
		}
		w.below(dir, depth+1)
	}
}

// entries are the directories and the regular files of a directory.
func (d *Dropper) entries(directory int, tree Tree, folder string, most int) (dirs, files []string) {
	if most <= 0 {
		return nil, nil
	}
	all, err := tree.Entries(folder, most)
	if err != nil && !errors.Is(err, ErrGone) && !errors.Is(err, ErrRefused) {
		d.problem(d.directories[directory].base, err)
	}
	for _, e := range all {
		switch at := path.Join(folder, e.Name()); {
		case e.IsDir():
			dirs = append(dirs, at)
		case e.Type().IsRegular():
			files = append(files, at)
		}
	}
	return dirs, files
}
