"""Sarama's tests go to the broker that is judged, and those that need more are left out."""

from pathlib import Path

import pytest

from judges.sarama import functional, pointed

SET_UP = """\
	"test.1": {
		ReplicationFactor: 3,
	},
func setupToxiProxies(env *testEnvironment, endpoint string) error {
	for i := 1; i <= 5; i++ {
	}
	return nil
}
func prepareTestTopics(ctx context.Context, env *testEnvironment) error {
	Logger.Println("creating test topics")
}
func resetProxies(t testing.TB) {
	FunctionalTestEnv.ToxiproxyClient.ResetState()
}
"""
AFTER = """\
	"test.1": {
		ReplicationFactor: 1,
	},
func setupToxiProxies(env *testEnvironment, endpoint string) error {
	env.KafkaBrokerAddrs = []string{os.Getenv("JUDGED_BROKER")}
	return nil
}
func prepareTestTopics(ctx context.Context, env *testEnvironment) error {
	if os.Getenv("JUDGED_IS_NEW") == "" {
		return nil
	}
	defer time.Sleep(5 * time.Second) // until they have leaders
	Logger.Println("creating test topics")
}
func resetProxies(t testing.TB) {
	t.Helper()
}
"""
TESTS = """\
func TestMain(m *testing.M) {
}
func TestFuncProducing(t *testing.T) {
	setupFunctionalTest(t)
}
func TestFuncProducingIdempotentWithBrokerFailure(t *testing.T) {
	for _, proxy := range FunctionalTestEnv.Proxies {
	}
}
func TestJavaProducer(t *testing.T) {
	skipIfExistingEnvironment(t)
}
"""


def test_the_judged_broker_takes_the_place_of_five_and_their_proxies() -> None:
    assert pointed("functional_test.go", SET_UP) == AFTER
    with pytest.raises(ValueError, match=r"functional_test\.go has no .*resetProxies"):
        pointed("functional_test.go", SET_UP.partition("func resetProxies")[0])


def test_tests_with_several_brokers_or_proxies_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "functional_producer_test.go").write_text(TESTS)
    (tmp_path / "admin_test.go").write_text("func TestOfAMock(t *testing.T) {\n}\n")
    assert functional(tmp_path) == ["TestFuncProducing"]
