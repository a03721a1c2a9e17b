package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/lab/controlplane"
)

// SchedulerUser is the user that hilbertd is to the API server.
const SchedulerUser = "system:hilbert"

// roleName names the roles of that user.
const roleName = "hilbert"

// leadTimeout bounds the wait until hilbertd has listed the cluster.
const leadTimeout = 60 * time.Second

// scheduler is hilbertd in this process.
type scheduler struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // valid once ended is closed
}

// startScheduler grants hilbertd what it needs and runs it, and returns when it has listed the cluster.
func startScheduler(ctx context.Context, plane *controlplane.ControlPlane, client kubernetes.Interface, log *progress) (*scheduler, error) {
	config := spec.Default()
	config.Server.BindAddress = "-"
	config.ClientConnection.Kubeconfig = filepath.Join(plane.Dir(), "hilbertd.kubeconfig")
	if err := grant(ctx, client, config.LeaderElection.Namespace); err != nil {
		return nil, err
	}
	if err := plane.UserKubeconfig(config.ClientConnection.Kubeconfig, SchedulerUser); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &scheduler{cancel: cancel, ended: make(chan struct{})}
	synced := make(chan struct{})
	go func() {
		defer close(s.ended)
		s.err = daemon.Run(running, config, daemon.Options{
			Log:      slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			OnSynced: func() { close(synced) },
		})
	}()
	select {
	case <-synced:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("start hilbertd: %w", s.err)
	case <-ctx.Done():
		s.stop()
		return nil, fmt.Errorf("start hilbertd: %w", context.Cause(ctx))
	case <-time.After(leadTimeout):
		s.stop()
		return nil, errors.New("start hilbertd: it has not listed the nodes and pods within " + leadTimeout.String())
	}
}

func (s *scheduler) stop() {
	s.cancel()
	<-s.ended
}

// grant lets hilbertd's user do what kube lists, and nothing else: the lab serves PodGroups, Queues and CustomNodeResources.
func grant(ctx context.Context, client kubernetes.Interface, leaseNamespace string) error {
	var everywhere, beside []rbacv1.PolicyRule
	for _, p := range slices.Concat(kube.Permissions, kube.OptionalPermissions) {
		rule := rbacv1.PolicyRule{APIGroups: []string{p.Group}, Resources: []string{p.Resource}, Verbs: p.Verbs}
		if p.InLeaseNamespace {
			beside = append(beside, rule)
		} else {
			everywhere = append(everywhere, rule)
		}
	}
	var o metav1.CreateOptions
	rbac := client.RbacV1()
	meta := metav1.ObjectMeta{Name: roleName}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: SchedulerUser}}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: roleName}
	}
	_, roleErr := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: everywhere}, o)
	_, bindingErr := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref("ClusterRole"), Subjects: subjects}, o)
	_, localErr := rbac.Roles(leaseNamespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: beside}, o)
	_, localBindingErr := rbac.RoleBindings(leaseNamespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref("Role"), Subjects: subjects}, o)
	if err := errors.Join(roleErr, bindingErr, localErr, localBindingErr, prioritise(ctx, client)); err != nil {
		return fmt.Errorf("grant hilbertd its permissions: %w", err)
	}
	return nil
}

// prioritise gives hilbertd's requests the priority level at the API server that kube-scheduler's have: among everybody else's, its
// Bindings would wait behind the very pods that are to be bound.
func prioritise(ctx context.Context, client kubernetes.Interface) error {
	all := []string{"*"}
	_, err := client.FlowcontrolV1().FlowSchemas().Create(ctx, &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: roleName},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "workload-high"},
			MatchingPrecedence:         800,
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByNamespaceType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: SchedulerUser}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true,
				}},
			}},
		},
	}, metav1.CreateOptions{})
	return err
}
