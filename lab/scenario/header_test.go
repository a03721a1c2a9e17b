package scenario

import (
	"strings"
	"testing"
	"time"
)

func TestReadHeader(t *testing.T) {
	for text, want := range map[string]Header{
		"nodes n count=1\n":                                                 {Pace: defaultPace},
		"# lab: pace=60\n# A story.\nnodes n\n":                             {Pace: 60},
		"# A story.\n\n# sim-only: it takes days\nnodes n\n# lab: pace=9\n": {Pace: defaultPace, SimOnly: "it takes days"},
	} {
		if h, err := ReadHeader(text); err != nil || h != want {
			t.Errorf("%q: %+v, %v", text, h, err)
		}
	}
	for text, want := range map[string]string{
		"# lab: slowly": "want pace=N", "# lab: pace=0": "want pace=N", "# lab: pace=NaN": "want pace=N", "# sim-only:": "want the reason",
	} {
		if _, err := ReadHeader(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if d := (Header{Pace: 60}).real(time.Minute); d != time.Second {
		t.Errorf("a minute takes %s", d)
	}
}
