package trace

import (
	"math"
	"strings"
	"testing"
)

func TestReadJobs(t *testing.T) {
	jobs, err := ReadJobs("use.csv", strings.NewReader("job,day,resource,t0,t1\nb,2,cpu,50,\nb,2,memory,10,20\na,1,cpu,1,2\nb,1,memory,3,4\nb,1,cpu,150,0\na,1,disk,x,y\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 1 || jobs[0].Name != "b" || len(jobs[0].Days) != 2 || jobs[0].Days[0].Day != 1 || jobs[0].Days[0].CPU[0] != 1.5 {
		t.Errorf("jobs are %+v", jobs)
	}
	if cpu := jobs[0].Days[1].CPU; cpu[0] != 0.5 || !math.IsNaN(cpu[1]) {
		t.Errorf("what is not known is %v", cpu)
	}
	for _, c := range []struct{ text, want string }{
		{"job,day,resource\na,1,cpu\n", "column t0: want it in the header"},
		{"job,day,resource,t0\na,1,cpu,-1\n", "use.csv:2: column t0: want a number from 0"},
		{"job,day,resource,t0\na,1,cpu,NaN\n", "column t0: want a number"},
		{"job,day,resource,t0\na,x,cpu,1\n", "column day: want a whole number"},
		{"job,day,resource,t0\na,1,cpu,1\na,1,cpu,1\n", "use.csv:3: column day: want each job, day and resource once"},
		{"job,day,resource,t0\na,1,cpu,1\n", "want a day of a job with cpu and memory"},
	} {
		if _, err := ReadJobs("use.csv", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}
