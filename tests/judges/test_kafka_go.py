"""kafka-go's tests are pointed to the broker that is judged."""

from judges.kafka_go import pointed

BEFORE = """\
package kafka

func TestConn(t *testing.T) {
	const (
		tcp   = "tcp"
		kafka = "localhost:9092"
	)
	client := Client{Addr: TCP("localhost")}
	const broker = "localhost:9092"
	const other = "localhost:9093"
}
"""
AFTER = """\
package kafka

func TestConn(t *testing.T) {
	var (
		tcp   = "tcp"
		kafka = judged
	)
	client := Client{Addr: TCP(judged)}
	var broker = judged
	const other = "localhost:9093"
}
"""


def test_addresses_are_replaced_and_are_no_constants_then() -> None:
    assert pointed(BEFORE) == AFTER


def test_examples_outside_the_package_are_left_alone() -> None:
    outside = BEFORE.replace("package kafka", "package kafka_test")
    assert pointed(outside) == outside
