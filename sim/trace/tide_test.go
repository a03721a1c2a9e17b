package trace

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const someRequests = `timestamp_anon,value,container_ip,request_type
1000.0,1.0,,API Requests
1000.5,2.0,a,Generative Requests
44000.0,3.0,,API Requests
87399.0,0.5,b,Generative Requests
`

func TestTideIsADayOfMeanOne(t *testing.T) {
	c, err := ReadTide("qps.csv", strings.NewReader(someRequests))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rows) != 3 { // nobody's, a's and b's
		t.Fatalf("%d shapes", len(c.Rows))
	}
	for i, row := range c.Rows {
		sum := 0.0
		for _, v := range row {
			sum += v
		}
		if len(row) != tidePoints || math.Abs(sum/tidePoints-1) > 1e-9 {
			t.Errorf("shape %d: %d points, mean %f", i, len(row), sum/tidePoints)
		}
	}
	if c.Rows[0][0] <= 0 || c.Rows[0][143] <= c.Rows[0][0] || c.Rows[0][100] != 0 {
		t.Errorf("the first shape is %v", c.Rows[0])
	}
}

func TestTideUnpacks(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	a := tar.NewWriter(z)
	if err := a.WriteHeader(&tar.Header{Name: "qps.csv", Typeflag: tar.TypeReg, Size: int64(len(someRequests)), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte(someRequests)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	packed, plain := filepath.Join(t.TempDir(), "qps.tar.gz"), filepath.Join(t.TempDir(), "qps.csv")
	if err := errors.Join(os.WriteFile(packed, b.Bytes(), 0o600), os.WriteFile(plain, []byte(someRequests), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{packed, plain} {
		c, err := LoadTide(path)
		if err != nil || len(c.Rows) != 3 {
			t.Errorf("%s: %v, %v", filepath.Base(path), c, err)
		}
	}
}

func TestUse(t *testing.T) {
	c, err := ReadUse("use.csv", strings.NewReader("vm,t0,t1,t2\na,0,50,100\nb,1.5,2,3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rows) != 2 || c.Rows[0][2] != 1 || c.Rows[1][0] != 0.015 {
		t.Fatalf("%v", c.Rows)
	}
}

func TestCurvesSayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "an empty file",
		"vm,t0\n":            "only a header",
		"vm,t0\na,101\n":     `use.csv:2: column t0: want a number from 0 to 100, found "101"`,
		"vm,t0\na,NaN\n":     `found "NaN"`,
		"vm,t0\na,1,2\n":     "want 2 fields as in the header, found 3",
		"machine,t0\na,1\n":  "column vm",
		"vm,t0,t1\na,1,-1\n": "column t1",
		"vm,t0,t1\na,1,\n":   "column t1",
		"vm,t0\n" + strings.Repeat("a,1\n", maxCurves+1): "at most",
	} {
		if _, err := ReadUse("use.csv", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	if _, err := ReadTide("qps.csv", strings.NewReader("timestamp_anon,value,container_ip\n1,1,\n")); err == nil {
		t.Error("one instant is a day")
	}
}
