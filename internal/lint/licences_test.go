package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// licences are those under which code may be linked into what Apache-2.0 covers, each by sentences that its text has and others have not. A
// text is that of the first licence of which it has all sentences.
var licences = []struct {
	name      string
	sentences []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0, january 2004"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy", "the software is provided"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form must reproduce", "used to endorse or promote products"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form must reproduce"}},
	{"ISC", []string{"permission to use, copy, modify, and", "distribute this software for any purpose", "with or without fee is hereby granted"}},
	{"MPL-2.0", []string{"mozilla public license version 2.0"}}, // by file: we change none of them
}

// licenceOf names the licence of a text, "" if it is none of those.
func licenceOf(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, foreign := range []string{"gnu general public license", "gnu affero general public license", "server side public license", "business source license"} {
		if strings.Contains(text, foreign) && !strings.Contains(text, "mozilla public license version 2.0") { // which speaks of them
			return ""
		}
	}
	for _, l := range licences {
		if !slices.ContainsFunc(l.sentences, func(s string) bool { return !strings.Contains(text, s) }) {
			return l.name
		}
	}
	return ""
}

// ownModules are the directories of the modules that have code of ours. The tools' module has none: what it names is run, and linked into nothing.
func ownModules(t *testing.T, root string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == "dist"):
			return filepath.SkipDir
		case entry.Name() == "go.mod" && filepath.Dir(name) != filepath.Join(root, "tools"):
			dirs = append(dirs, filepath.Dir(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{root, filepath.Join(root, "lab"), filepath.Join(root, "lab", "e2e"), filepath.Join(root, "tools", "release")} {
		if !slices.Contains(dirs, want) {
			t.Fatalf("the module %s is not looked at: %v", want, dirs)
		}
	}
	return dirs
}

// TestLicences fails when a module that is linked into a program of ours comes without a licence that Apache-2.0 can ship.
func TestLicences(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := make(map[string]string)
	for _, module := range ownModules(t, root) {
		command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./...")
		command.Dir = module
		out, err := command.Output()
		if err != nil {
			t.Fatalf("go list in %s: %v", module, err)
		}
		for line := range strings.Lines(string(out)) {
			if path, dir, _ := strings.Cut(strings.TrimSpace(line), " "); path != "" && !strings.HasPrefix(path, "hilbert.dev/") {
				seen[path] = dir
			}
		}
	}
	if len(seen) < 20 {
		t.Fatalf("only %d modules", len(seen))
	}
	for path, dir := range seen {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, file := range files {
			name := strings.ToUpper(filepath.Base(file))
			if found != "" || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = licenceOf(string(text))
		}
		if found == "" {
			t.Errorf("%s: no licence in %s that Apache-2.0 can ship; take another module, or add the licence with its reason", path, dir)
		}
	}
}

func TestLicenceOf(t *testing.T) {
	own, err := os.ReadFile(filepath.Join("..", "..", "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(own): "Apache-2.0",
		"":          "",
		"All rights reserved. Do not redistribute.":                                                                           "",
		"GNU GENERAL PUBLIC LICENSE Version 3, 29 June 2007 ... Apache License, version 2.0, January 2004":                    "",
		"Business Source License 1.1 ... converts to the Apache License Version 2.0, January 2004, in four years":             "",
		"Permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted": "ISC",
	} {
		if got := licenceOf(text); got != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}
