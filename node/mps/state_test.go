package mps

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestState(t *testing.T) {
	full := "ready\nmemory shm-abcdefgh fresh\nserver 10 ACTIVE\n" + strings.Repeat("client 10 11\n", 48)
	for _, c := range []struct {
		text   string
		serves string // "" it does, "?" it is no state, else a part of why not
	}{
		{"ready\nmemory shm-abcdefgh fresh\n", ""},
		{"ready\nmemory shm-abcdefgh used", ""},
		{"ready\n", "older than the agent"},
		{"ready\nmemory shm-abcdefgh fresh\nserver 10 ACTIVE\nclient 10 11\nclient 10 12\nserver 20 INITIALIZING\n", ""},
		{"ready\nmemory shm-abcdefgh fresh\nserver 10 active\n", ""},
		{"ready\nmemory shm-abcdefgh fresh\nserver 10 ACTIVE\nserver 20 FAULT\n", "20 says FAULT"},
		{"ready\nmemory shm-abcdefgh fresh\nserver 10 UNKNOWN\n", "10 says UNKNOWN"},
		{full, "48 clients, of at most 48"},
		{"", "?"},
		{"server 10 ACTIVE\n", "?"},
		{"ready\nserver x ACTIVE\n", "?"},
		{"ready\nserver 10\n", "?"},
		{"ready\nclient 10 11\n", "?"},
		{"ready\nserver 10 ACTIVE\nclient 9 11\n", "?"},
		{"ready\nserver 10 ACTIVE\nclient 10 x\n", "?"},
		{"ready\nworker 10 11\n", "?"},
		{"ready\nmemory ../pipe fresh\n", "?"},
		{"ready\nmemory shm-abcdefgh old\n", "?"},
		{"ready\nmemory shm-abcdefgh fresh\nmemory shm-abcdefgh fresh\n", "?"},
	} {
		s, err := ParseState([]byte(c.text))
		switch {
		case (err != nil) != (c.serves == "?"):
			t.Errorf("%.40q: %v", c.text, err)
		case err != nil:
		case c.serves == "" && s.Serves("580.1") != "", !strings.Contains(s.Serves("580.1"), c.serves):
			t.Errorf("%.40q: %q", c.text, s.Serves("580.1"))
		}
	}
	if s, err := ParseState([]byte(full)); err != nil || s.Serves("590.1") != "" {
		t.Errorf("a newer driver: %v, %v", s, err)
	}
}

func TestReadState(t *testing.T) {
	p, now := Defaults(), time.Unix(1_000_000, 0)
	dir := fstest.MapFS{
		"GPU-a/state": {Data: []byte("ready\nmemory shm-abcdefgh used\nserver 10 ACTIVE\nclient 10 11\n"), ModTime: now.Add(-59 * time.Second)},
		"GPU-b/state": {Data: []byte("ready\n"), ModTime: now.Add(-61 * time.Second)},
		"GPU-c/state": {Data: []byte("?"), ModTime: now},
	}
	if s, err := p.ReadState(dir, "GPU-a", now); err != nil || s.Clients() != 1 || s.Shared != (Shared{Name: "shm-abcdefgh", Used: true, Seen: now.Add(-59 * time.Second)}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, uuid := range []string{"GPU-b", "GPU-c", "GPU-d", "../GPU-a"} {
		if s, err := p.ReadState(fs.FS(dir), uuid, now); err == nil {
			t.Errorf("%s: %+v", uuid, s)
		}
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte("ready\nmemory shm-abcdefgh used\nserver 10 ACTIVE\nclient 10 11\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := ParseState(text); err == nil && s.Clients() < 0 {
			t.Error("fewer than none")
		}
	})
}
