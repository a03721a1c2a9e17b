package policy

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// claimed is the name of the claim that hilbertd makes for the pod free.
const claimed = "free-extended-resources-0123456789"

// claimFor is the claim that hilbertd makes for the extended resources of the pod free.
func claimFor(changes ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	controller := true
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: claimed, Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "free", UID: "u", Controller: &controller}},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "container-0-request-0", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "nic.example.com", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		}}}}},
	}
	for _, change := range changes {
		change(claim)
	}
	return claim
}

// prepareClaim makes a claim that a person has written.
func prepareClaim(ctx context.Context) error {
	claim := claimFor(func(c *resourcev1.ResourceClaim) {
		c.Name, c.OwnerReferences, c.Finalizers = "theirs", nil, []string{"example.com/x"}
	})
	_, err := admin.ResourceV1().ResourceClaims(both).Create(ctx, claim, metav1.CreateOptions{})
	return err
}

func createsClaim(user kubernetes.Interface, changes ...func(*resourcev1.ResourceClaim)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := user.ResourceV1().ResourceClaims(both).Create(ctx, claimFor(changes...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
}

func patchesClaim(user kubernetes.Interface, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := user.ResourceV1().ResourceClaims(both).Patch(ctx, "theirs", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
}

// claimRows: which claims of devices hilbertd may make and change, and what it may tell a pod of one.
func claimRows() []request {
	type claim = resourcev1.ResourceClaim
	const (
		annotated, owned, named = "resourceclaims: hilbertd makes claims for extended resources alone", "resourceclaims: a claim that hilbertd makes is owned", "resourceclaims: a claim that hilbertd makes is named"
		plainly, leaves         = "resourceclaims: a claim that hilbertd makes asks for numbers", "resourceclaims: hilbertd leaves labels"
		finalizers              = "resourceclaims: hilbertd adds the finalizer"
		ofPod                   = "pods/status: the claim in extendedResourceClaimStatus"
	)
	long := strings.Repeat("a", 200)
	rows := []request{
		{"hilbertd makes a claim for extended resources", createsClaim(hilbertd), ""},
		{"of a pod with a long name", createsClaim(hilbertd, func(c *claim) { c.OwnerReferences[0].Name, c.Name = long, long[:100]+"-extended-resources-abcdef0123" }), ""},
		{"hilbertd makes a claim of its own", createsClaim(hilbertd, func(c *claim) { c.Annotations = nil }), annotated},
		{"with another annotation", createsClaim(hilbertd, func(c *claim) { c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] = "false" }), annotated},
		{"that nobody owns", createsClaim(hilbertd, func(c *claim) { c.OwnerReferences = nil }), owned},
		{"that two own", createsClaim(hilbertd, func(c *claim) {
			c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "free", UID: "v"})
		}), owned},
		{"that a Job owns", createsClaim(hilbertd, func(c *claim) { c.OwnerReferences[0].APIVersion, c.OwnerReferences[0].Kind = "batch/v1", "Job" }), owned},
		{"that another Pod owns", createsClaim(hilbertd, func(c *claim) { c.OwnerReferences[0].APIVersion = "example.com/v1" }), owned},
		{"that a ConfigMap owns", createsClaim(hilbertd, func(c *claim) { c.OwnerReferences[0].Kind = "ConfigMap" }), owned},
		{"whose owner controls nothing", createsClaim(hilbertd, func(c *claim) { c.OwnerReferences[0].Controller = nil }), owned},
		{"by another name", createsClaim(hilbertd, func(c *claim) { c.Name = "free" }), named},
		{"by the name of another pod", createsClaim(hilbertd, func(c *claim) { c.Name = "bound-extended-resources-0123456789" }), named},
		{"by a longer name", createsClaim(hilbertd, func(c *claim) { c.Name = claimed + "0" }), named},
		{"by one that is made up", createsClaim(hilbertd, func(c *claim) { c.Name, c.GenerateName = "", "free-extended-resources-" }), named},
		{"for administrators", createsClaim(hilbertd, func(c *claim) { c.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true) }), plainly},
		{"for all devices", createsClaim(hilbertd, func(c *claim) {
			r := c.Spec.Devices.Requests[0].Exactly
			r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 0
		}), plainly},
		{"for a chosen device", createsClaim(hilbertd, func(c *claim) {
			c.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}}
		}), plainly},
		{"with a toleration", createsClaim(hilbertd, func(c *claim) {
			c.Spec.Devices.Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
		}), plainly},
		{"with a list", createsClaim(hilbertd, func(c *claim) {
			c.Spec.Devices.Requests[0].Exactly = nil
			c.Spec.Devices.Requests[0].FirstAvailable = []resourcev1.DeviceSubRequest{{Name: "a", DeviceClassName: "b", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}
		}), plainly},
		{"with parameters", createsClaim(hilbertd, func(c *claim) {
			c.Spec.Devices.Config = []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "nic.example.com"}}}}
			c.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte("{}")
		}), plainly},
		{"with constraints", createsClaim(hilbertd, func(c *claim) {
			c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: new(resourcev1.FullyQualifiedName("nic.example.com/rack"))}}
		}), plainly},
		{"that holds on", createsClaim(hilbertd, func(c *claim) { c.Finalizers = []string{resourcev1.Finalizer} }), finalizers},
		{"the owner makes a claim", createsClaim(owner, func(c *claim) { c.Name, c.Annotations, c.OwnerReferences = "own", nil, nil }), ""},
		{"hilbertd protects a claim", patchesClaim(hilbertd, `{"metadata":{"finalizers":["example.com/x","`+resourcev1.Finalizer+`"]}}`), ""},
		{"hilbertd holds a claim otherwise", patchesClaim(hilbertd, `{"metadata":{"finalizers":["example.com/x","example.com/y"]}}`), finalizers},
		{"hilbertd lets a claim go", patchesClaim(hilbertd, `{"metadata":{"finalizers":null}}`), finalizers},
		{"hilbertd labels a claim", patchesClaim(hilbertd, `{"metadata":{"labels":{"a":"b"}}}`), leaves},
		{"hilbertd annotates a claim", patchesClaim(hilbertd, `{"metadata":{"annotations":{"a":"b"}}}`), leaves},
		{"hilbertd gives a claim to a pod", patchesClaim(hilbertd, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"free","uid":"u"}]}}`), leaves},
		{"the administrator lets a claim go", patchesClaim(admin, `{"metadata":{"finalizers":null}}`), ""},
	}
	tells := func(name string) string {
		return `{"status":{"extendedResourceClaimStatus":{"resourceClaimName":"` + name + `","requestMappings":[{"containerName":"main","resourceName":"` +
			string(extendedNIC) + `","requestName":"container-0-request-0"}]}}}`
	}
	return append(rows,
		request{"hilbertd tells a pod of its claim", patches(hilbertd, "wired", tells("wired-extended-resources-0123456789"), "status"), ""},
		request{"hilbertd tells a pod of another's claim", patches(hilbertd, "wired", tells(claimed), "status"), ofPod},
		request{"hilbertd tells a pod of any claim", patches(hilbertd, "wired", tells("theirs"), "status"), ofPod},
	)
}

// extendedNIC is a resource that a DeviceClass may stand for.
const extendedNIC corev1.ResourceName = "example.com/nic"
