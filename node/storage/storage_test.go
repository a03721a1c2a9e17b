package storage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
)

// TestReadings runs the transcript: what is made of the summaries in testdata. Run with -rewrite to accept new output.
//
//	read FILE [at=TIME]: what is known then; by default at 06:00:10
func TestReadings(t *testing.T) {
	datadriven.RunTest(t, "testdata/readings", func(t *testing.T, d *datadriven.TestData) string {
		file, err := os.Open(filepath.Join("testdata", d.CmdArgs[0].Key))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		r, err := Parse(file)
		if err != nil {
			return err.Error() + "\n"
		}
		at := "06:00:10"
		if d.HasArg("at") {
			d.ScanArgs(t, "at", &at)
		}
		now, err := time.Parse(time.RFC3339, "2026-11-22T"+at+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return say(r, now)
	})
}

func say(r *Reading, now time.Time) string {
	var b strings.Builder
	if disk := r.Images(now); disk != (evict.Disk{}) {
		fmt.Fprintf(&b, "images: %s of %s bytes, %s of %s inodes\n", number(disk.Bytes), number(disk.BytesTotal), number(disk.Inodes), number(disk.InodesTotal))
	}
	for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
		root, images := r.Pod(uid, now)
		fmt.Fprintf(&b, "%s: root %s bytes, %s inodes; images %s bytes, %s inodes\n", uid, number(root.Bytes), number(root.Inodes), number(images.Bytes), number(images.Inodes))
	}
	fmt.Fprintf(&b, "known: %d\n", r.Known(now))
	return b.String()
}

func number(s advise.Sample) string {
	if !s.Known {
		return "?"
	}
	return fmt.Sprint(int64(s.Value))
}

// No Reading knows nothing; it is not one of zeros.
func TestNoReading(t *testing.T) {
	var r *Reading
	root, images := r.Pod("uid", time.Now())
	if root != (evict.Use{}) || images != (evict.Use{}) || r.Images(time.Now()) != (evict.Disk{}) || r.Known(time.Now()) != 0 {
		t.Error("something is known without a reading")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "{}", `{"node":{}}`, `{"node":{"fs":{}}}`, `{"node":{"fs":{},"runtime":{}}}`, `{"node":{"fs":{"usedBytes":-1},"runtime":{"imageFs":{}}}}`} {
		if r, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read as %+v", text, r)
		}
	}
}

// Whatever an answer says, what is known is a finite number that is not below 0.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no summaries", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for uid, p := range r.pods {
			root, images := r.Pod(uid, p.at)
			for _, s := range []advise.Sample{root.Bytes, root.Inodes, images.Bytes, images.Inodes} {
				if s.Known && s.Value < 0 {
					t.Fatalf("%s: %+v", uid, s)
				}
			}
		}
	})
}
