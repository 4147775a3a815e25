-- The assignments of the deployment `demo` as a table of ClickHouse, which reads Kafka itself, and only what is
-- committed:   clickhouse client --multiquery < clickhouse.sql
-- It reads at least once: FINAL, as in `SELECT ... FROM assignments FINAL`, leaves one row for each record.
CREATE TABLE assignments (
    time DateTime64(3, 'UTC'),
    id Nullable(String),
    stream LowCardinality(String),
    version UInt32,
    status LowCardinality(String),
    cluster Nullable(String),
    score Nullable(Float64),
    novel Bool,
    topic LowCardinality(String),
    partition UInt32,
    offset UInt64,
    element UInt32
) ENGINE = ReplacingMergeTree ORDER BY (topic, partition, offset, element);

CREATE TABLE assignments_queue (
    time String,
    id Nullable(String),
    stream String,
    version UInt32,
    status String,
    cluster Nullable(String),
    score Nullable(Float64),
    novel Bool,
    source Tuple(topic String, partition UInt32, offset UInt64, index UInt32)
) ENGINE = Kafka SETTINGS
    kafka_broker_list = 'localhost:9092',
    kafka_topic_list = 'demo.assignments',
    kafka_group_name = 'demo-clickhouse',
    kafka_format = 'JSONEachRow',
    input_format_skip_unknown_fields = 1;

CREATE MATERIALIZED VIEW assignments_reader TO assignments AS
SELECT
    parseDateTime64BestEffort(time, 3, 'UTC') AS time, id, stream, version, status, cluster, score, novel,
    source.topic AS topic, source.partition AS partition, source.offset AS offset, source.index AS element
FROM assignments_queue;
