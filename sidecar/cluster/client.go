package cluster

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/requeststate/operator/api/v1alpha1"
)

type (
	keyClient    = *gentype.ClientWithList[*v1alpha1.RequestStateKey, *v1alpha1.RequestStateKeyList]
	reportClient = *gentype.Client[*v1alpha1.KeyringReport]
)

// clients returns the clients for the two kinds in a namespace. They know these kinds and no other, so nothing is asked of discovery: a sidecar's start costs the
// API server as little as can be. For the same reason they are not controller-runtime's: its client brings all of Kubernetes' own types along, a third of the
// binary that every pod would pull.
func clients(config *rest.Config, namespace string) (keyClient, reportClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &v1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cl, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	parameters := runtime.NewParameterCodec(scheme)
	keys := gentype.NewClientWithList("requeststatekeys", cl, parameters, namespace,
		func() *v1alpha1.RequestStateKey { return &v1alpha1.RequestStateKey{} },
		func() *v1alpha1.RequestStateKeyList { return &v1alpha1.RequestStateKeyList{} })
	reports := gentype.NewClient("keyringreports", cl, parameters, namespace,
		func() *v1alpha1.KeyringReport { return &v1alpha1.KeyringReport{} })
	return keys, reports, nil
}
