package moves

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/control/tide"
)

// forecastOutlasts stops a controller and starts others, the first with what a status has of four days, the second with a status that is damaged. It returns the last one.
func (b *bed) forecastOutlasts(controller *process) *process {
	t := b.t
	t.Helper()
	history, now := tide.NewHistory(0), time.Now()
	for at := now.Add(-4 * 24 * time.Hour); at.Before(now.Add(-5 * time.Minute)); at = at.Add(5 * time.Minute) {
		history.Learn(1+at.Hour()/8, at)
	}
	text, err := history.Text()
	if err != nil {
		t.Fatal(err)
	}
	b.change(map[string]any{"forecast": true})
	for _, c := range []struct{ text, want string }{{text, "its error is"}, {text[:len(text)/2], "what was known before is forgotten"}} {
		controller.stop(t)
		body, err := json.Marshal(map[string]any{"status": map[string]any{"forecastHistory": c.text}})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.admin.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(tidePoolsPath + "/tide/status").Body(body).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
		controller = b.tidal()
		b.until("the forecast says: "+c.want, func() error {
			var pool v1alpha1.TidePool
			data, err := b.admin.Discovery().RESTClient().Get().AbsPath(tidePoolsPath + "/tide").DoRaw(t.Context())
			if err == nil {
				err = json.Unmarshal(data, &pool)
			}
			if err != nil {
				return err
			}
			s := &pool.Status
			if kept := tide.ReadHistory(s.ForecastHistory, 0, time.Now()); !strings.Contains(s.Forecast, c.want) || s.ForecastHistory == c.text || kept.Refused() != "" {
				return fmt.Errorf("the status says %q, and a history of %d bytes: %s", s.Forecast, len(s.ForecastHistory), kept.Refused())
			}
			return nil
		})
	}
	return controller
}
