"""Every API at every version that a broker advertises, with a body of defaults and one that must fail or fill: each answer has to
decode exactly, and encode back to the same bytes.

    versions.py HOST:PORT

Unlike `selftest.py` it asks nothing that is not advertised, so it also fits a broker that serves few APIs.
"""
import sys
import kwire as k
import selftest


def learn(c):
    """What the bodies need to know: a topic's id and a broker's id."""
    made = c.send("CreateTopics", 7, {"topics": [{"name": "kwire", "numPartitions": 3, "replicationFactor": 1}], "timeoutMs": 9000})
    assert made["topics"][0]["errorCode"] in (0, 36), made
    for _ in range(100):
        m = c.send("Metadata", 13, {"topics": [{"name": "kwire"}]})
        if not m["topics"][0]["errorCode"] and all(p["leaderId"] >= 0 for p in m["topics"][0]["partitions"]):
            return {"uuid": m["topics"][0]["topicId"], "node": str(m["brokers"][0]["nodeId"])}
    raise SystemExit("the topic did not come up")


if __name__ == "__main__":
    host, port = sys.argv[1].rsplit(":", 1)
    selftest.learn = learn
    sys.exit(selftest.run(host, int(port)))
