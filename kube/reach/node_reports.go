package reach

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/kube/apiserver"
)

// nodeReportPage is how many CustomNodeResources are asked for at once: some MB.
const nodeReportPage = 500

// EachNodeReport reads the CustomNodeResources, by name, and hands each over; those of some nodes where names are given. visit must not
// keep what it is given, and an error of its ends it. Target's Lease and Server do not matter: the API server is asked.
func EachNodeReport(ctx context.Context, t Target, names []string, visit func(*v1alpha1.CustomNodeResource) error) error {
	t.Server = ""
	config, err := t.config()
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.NegotiatedSerializer = "/apis", scheme.Codecs.WithoutConversion()
	config.GroupVersion = &v1alpha1.GroupVersion
	config.QPS = -1
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	for _, name := range names {
		data, err := client.Get().Resource(v1alpha1.CustomNodeResources).Name(name).DoRaw(apiserver.Silence(ctx))
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("there is no CustomNodeResource %s: is the node's name right, and does its agent run? (%w)", name, err)
		}
		item := &v1alpha1.CustomNodeResource{}
		if err == nil {
			err = json.Unmarshal(data, item)
		}
		if err != nil {
			return fmt.Errorf("read the CustomNodeResource %s: %w", name, err)
		}
		if err := visit(item); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		return nil
	}
	return eachPage(apiserver.Silence(ctx), client, visit)
}

func eachPage(ctx context.Context, client *rest.RESTClient, visit func(*v1alpha1.CustomNodeResource) error) error {
	query := url.Values{"limit": {strconv.Itoa(nodeReportPage)}}
	for {
		request := client.Get().Resource(v1alpha1.CustomNodeResources)
		for name := range query {
			request.Param(name, query.Get(name))
		}
		data, err := request.DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			return apiserver.ErrNoDefinition
		}
		var list v1alpha1.CustomNodeResourceList
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err != nil {
			return fmt.Errorf("list CustomNodeResources: %w", err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
		query.Set("continue", list.Continue)
	}
}
