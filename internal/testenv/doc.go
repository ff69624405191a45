// Package testenv starts a real etcd and a real API server with this project's CRDs and admission policies, for tests and for the demo.
//
// A test package starts one control plane for all its tests and takes a namespace for each:
//
//	var env *testenv.Env
//
//	func TestMain(m *testing.M) { testenv.Main(m, &env) }
//
//	func TestSomething(t *testing.T) {
//		ns := env.Namespace(t)
//		ns.AllowConsumer("deployer")
//		pod := ns.Pod("mcp-0", "deployer")
//		ns.SetSidecar(pod, testenv.Running)
//		sidecarConfig := ns.PodConfig(pod)
//		...
//	}
//
// There is no controller manager, no scheduler and no kubelet: nothing happens to an object but what a test does to it. No service account exists until Namespace
// makes it, a pod's status is what SetSidecar wrote, nothing is garbage collected, and a deleted pod stays, terminating, until Remove.
//
// KillAPIServer and StartAPIServer, or both as RestartAPIServer, are a crash of the API server: the same address, data, certificates and tokens afterwards.
//
// Every method of Namespace has an error-returning twin on Env, for callers without a *testing.T.
package testenv
