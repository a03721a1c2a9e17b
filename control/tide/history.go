package tide

import (
	"encoding/base64"
	"fmt"
	"time"

	"hilbert.dev/hilbert/control/forecast"
)

const (
	// forecastStep is the step of forecasts of what online asks for, maxForecastLead the most that they look ahead.
	forecastStep    = 5 * time.Minute
	maxForecastLead = 12 * time.Hour
	// MaxHistory bounds what Text returns, in bytes: a checkpoint in base64.
	MaxHistory = 64 << 10
)

// History is what a pool's online pods asked for in the last weeks, as far as it is known. Its Text outlasts the process; a History that reads it predicts what the one that wrote it would have.
//
// For example, a leader that takes over at 07:55 gives the morning's nodes at 08:00, as the one before would have.
type History struct {
	series *forecast.Series
	lead   time.Duration
	began  string // why nothing of before is known, "": there was nothing, or it is known
}

// NewHistory is a history of nothing.
func NewHistory(lead time.Duration) *History { return ReadHistory("", lead, time.Time{}) }

// ReadHistory reads a Text, as far as it can be trusted; an empty one is a pool's first. What cannot be trusted is refused: the history begins anew, and its forecasts say why until one is trusted.
func ReadHistory(text string, lead time.Duration, now time.Time) *History {
	h := &History{lead: min(lead, maxForecastLead)}
	params := forecast.DefaultParams(forecastStep, h.lead)
	if text != "" {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			err = fmt.Errorf("%w: it is not base64", forecast.ErrCheckpoint)
		} else {
			h.series, err = forecast.Restore(&params, data, now)
		}
		if err != nil {
			h.began = "what was known before is forgotten: " + err.Error()
		}
	}
	if h.series == nil {
		h.series = forecast.NewSeries(&params)
	}
	return h
}

// Refused says why nothing of a Text was believed; "": it was.
func (h *History) Refused() string { return h.began }

// See is Learn and Predict of a pool whose lead may have changed: it tells what online asks for now, and returns what it will. The first of each five minutes counts. Another lead has forecasts made and checked anew, from what is known.
func (h *History) See(need int, lead time.Duration, now time.Time) (forecast.Prediction, error) {
	if min(lead, maxForecastLead) != h.lead {
		text, err := h.Text()
		if err != nil {
			return forecast.Prediction{}, err
		}
		*h = *ReadHistory(text, lead, now)
	}
	h.Learn(need, now)
	return h.Predict(), nil
}

// Learn tells what online asks for now.
func (h *History) Learn(need int, now time.Time) { h.series.See(float64(need), now) }

// Predict is what online will ask for at most within the lead.
func (h *History) Predict() forecast.Prediction {
	p := h.series.Predict()
	if h.began != "" && !p.Trusted {
		p.Reason += "; " + h.began
	}
	return p
}

// Text is the history as ReadHistory reads it, at most MaxHistory long; "" before anything is known.
func (h *History) Text() (string, error) {
	if _, loads := h.series.Loads(); len(loads) == 0 {
		return "", nil
	}
	data, err := h.series.Checkpoint()
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(data), nil
}
