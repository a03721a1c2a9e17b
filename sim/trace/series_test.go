package trace

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestReadSeries(t *testing.T) {
	s, err := ReadSeries("a/load.csv", strings.NewReader("timestamp,value\n2026-03-02 00:10:00,3\n2026-03-02 00:00:00,1\n2026-03-02 00:05:00,2\n2026-03-02 00:20:00,5\n"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "load.csv" || s.Step != 5*time.Minute || len(s.Loads) != 5 || s.Loads[0] != 1 || s.Loads[2] != 3 || !math.IsNaN(s.Loads[3]) || s.Loads[4] != 5 {
		t.Errorf("the series is %+v", s)
	}
	s, err = ReadSeries("q.csv", strings.NewReader("timestamp_anon,value,container_ip\n600,1,a\n0,2,b\n10,3,\n601,4,b\n"))
	if err != nil || s.Step != 5*time.Minute || len(s.Loads) != 3 || s.Loads[0] != 5 || !math.IsNaN(s.Loads[1]) || s.Loads[2] != 5 {
		t.Errorf("summed up it is %+v, %v", s, err)
	}
	for _, c := range []struct{ text, want string }{
		{"time,value\n", "column timestamp: want it in the header"},
		{"timestamp,value\nnoon,1\n", "load.csv:2: column timestamp: want an instant like"},
		{"timestamp,value\n2026-03-02 00:00:00,x\n", "column value: want a number"},
		{"timestamp,value\n2026-03-02 00:00:00,1\n", "more than one instant"},
	} {
		if _, err := ReadSeries("load.csv", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// A month of a cell has no times.
func TestReadCell(t *testing.T) {
	s, err := ReadSeries("cell.csv", strings.NewReader("avg_cpu,avg_mem\n0.4416155843647663,0.33\n0.25,0.31\n"))
	if err != nil || s.Step != 5*time.Minute || len(s.Loads) != 2 || s.Loads[0] != 0.441616 || s.Loads[1] != 0.25 || s.Start.Month() != time.May {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{"avg_cpu\n", "avg_cpu\nmuch\n", "avg_mem\n0.1\n"} {
		if s, err := ReadSeries("cell.csv", strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
}
