package reach

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How many objects Each asks for at once, and how often at the most.
const (
	objectPage     = 500
	maxObjectPages = 1000
	// pageTimeout is how long it waits for each page.
	pageTimeout = 30 * time.Second
)

// Each visits the metadata of all objects at a path, page by page. path may have a query.
func (i *Inspector) Each(ctx context.Context, path string, visit func(*metav1.PartialObjectMetadata)) error {
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	next := ""
	for range maxObjectPages {
		var list metav1.PartialObjectMetadataList
		query := url.Values{"limit": {strconv.Itoa(objectPage)}, "continue": {next}}
		if err := i.page(ctx, path+mark+query.Encode(), &list); err != nil {
			return err
		}
		for at := range list.Items {
			visit(&list.Items[at])
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
	return fmt.Errorf("%s has more than %d objects", path, objectPage*maxObjectPages)
}

// onlyMetadata asks for the metadata of a list's objects, which is a tenth of them; whoever does not know the form sends all.
const onlyMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

func (i *Inspector) page(ctx context.Context, path string, list *metav1.PartialObjectMetadataList) error {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return i.decode(ctx, path, onlyMetadata, list)
}

// Names lists the names of the objects at a path, as many as it has learnt when ctx ends or the API server refuses; then it returns the error beside them.
func (i *Inspector) Names(ctx context.Context, path string) (names []string, err error) {
	err = i.Each(ctx, path, func(o *metav1.PartialObjectMetadata) { names = append(names, o.Name) })
	return names, err
}

// maxObject bounds what Get reads, in bytes.
const maxObject = 32 << 20

// Get reads an object, or a list of them, from the API server. path may have a query.
func (i *Inspector) Get(ctx context.Context, path string, v any) error {
	return i.decode(ctx, path, anyJSON, v)
}

// anyJSON asks for objects as they are.
const anyJSON = "application/json"

func (i *Inspector) decode(ctx context.Context, path, accept string, v any) error {
	body, _, err := i.read(ctx, path, accept, maxObject)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %s cannot be read: %w", i.where, path, err)
	}
	return nil
}

// Send creates (POST) or deletes (DELETE) an object at the API server. Nothing else of this package writes.
func (i *Inspector) Send(ctx context.Context, method, path string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, i.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Accept", anyJSON)
	request.Header.Set("Content-Type", anyJSON)
	response, err := i.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w%s", i.where, err, hint(err))
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		_, err := i.complaint(response)
		return err
	}
	return response.Body.Close()
}

func (i *Inspector) read(ctx context.Context, path, accept string, most int64) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.base+path, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := i.client.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("ask %s: %w%s", i.where, err, hint(err))
	}
	if response.StatusCode != http.StatusOK {
		_, err := i.complaint(response)
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer of %s: %w", i.where, err)
	}
	return body, response.Header, nil
}
