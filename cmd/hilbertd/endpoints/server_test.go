package endpoints

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOnlyThisHostMayAsk(t *testing.T) {
	handle := LocalOnly(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for address, want := range map[string]int{
		"127.0.0.1:5": http.StatusOK, "[::1]:5": http.StatusOK, "[::ffff:127.0.0.1]:5": http.StatusOK,
		"10.0.0.1:5": http.StatusForbidden, "[2001:db8::1]:5": http.StatusForbidden, "?": http.StatusForbidden,
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/v1/node", http.NoBody), httptest.NewRecorder()
		r.RemoteAddr = address
		if handle(w, r); w.Code != want {
			t.Errorf("%s: %d", address, w.Code)
		}
	}
}
