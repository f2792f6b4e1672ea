// The crate `kafka`: assigned partitions, and offsets of a group. It cannot tell null from empty.
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use kafka::consumer::{Consumer, FetchOffset, GroupOffsetStorage};

const GRACE: Duration = Duration::from_millis(250);

struct Reading {
    name: String,
    partitions: i32,
    count: usize,
    wait: Duration,
    seen: usize,
    started: Instant,
    complete: Option<Instant>,
}

impl Reading {
    fn goes_on(&mut self) -> bool {
        if self.seen >= self.count && self.complete.is_none() {
            self.complete = Some(Instant::now());
        }
        match self.complete {
            Some(at) => at.elapsed() < GRACE && self.seen < 2 * self.count + 10,
            None => self.started.elapsed() < self.wait,
        }
    }
}

fn hex(name: &str, data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    let digits: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(",\"{name}\":\"{digits}\"")
}

fn read(
    out: &mut impl Write,
    reading: &mut Reading,
    bootstrap: &str,
    with_group: bool,
) -> Result<(), String> {
    let partitions: Vec<i32> = (0..reading.partitions).collect();
    let mut builder = Consumer::from_hosts(vec![bootstrap.to_owned()])
        .with_topic_partitions(reading.name.clone(), &partitions)
        .with_fallback_offset(FetchOffset::Earliest)
        .with_fetch_max_bytes_per_partition(4 << 20);
    if with_group {
        let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        builder = builder.with_group(format!("rust-{nanos}"));
        #[cfg(feature = "old")]
        let storage = GroupOffsetStorage::Kafka;
        #[cfg(not(feature = "old"))]
        let storage = Some(GroupOffsetStorage::Kafka);
        builder = builder.with_offset_storage(storage);
    }
    let mut consumer = builder.create().map_err(|error| error.to_string())?;
    while reading.goes_on() {
        let sets = consumer.poll().map_err(|error| error.to_string())?;
        for set in sets.iter() {
            for message in set.messages() {
                let at = format!("\"p\":{},\"o\":{}", set.partition(), message.offset);
                let (key, value) = (hex("k", message.key), hex("v", message.value));
                let topic = &reading.name;
                writeln!(out, "{{\"topic\":\"{topic}\",{at}{key}{value}}}").unwrap();
                reading.seen += 1;
            }
            if with_group {
                let _ = consumer.consume_messageset(set);
            }
        }
        if with_group {
            consumer
                .commit_consumed()
                .map_err(|error| error.to_string())?;
        }
        if sets.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let found = given.iter().position(|each| each == name);
        found.map_or("", |at| given[at + 1].as_str()).to_owned()
    };
    let wait = Duration::from_secs_f64(option("--wait").parse().unwrap_or(8.0));
    let topics = given
        .iter()
        .zip(&given[1..])
        .filter(|(name, _)| *name == "--topic");
    let mut out = BufWriter::new(std::io::stdout());
    for (_, topic) in topics {
        let parts: Vec<&str> = topic.split(':').collect();
        let mut reading = Reading {
            name: parts[0].to_owned(),
            partitions: parts[1].parse().unwrap(),
            count: parts[2].parse().unwrap(),
            wait,
            seen: 0,
            started: Instant::now(),
            complete: None,
        };
        let name = reading.name.clone();
        let (ended, over) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            let late = over.recv_timeout(wait + Duration::from_secs(10));
            if late == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                println!("{{\"topic\":\"{name}\",\"end\":\"hangs\"}}");
                std::process::exit(3);
            }
        });
        let done = read(
            &mut out,
            &mut reading,
            &option("--bootstrap"),
            option("--mode") == "offsets",
        );
        let end = match done {
            Err(error) => error.replace(['"', '\\', '\n'], " "),
            Ok(()) if reading.seen >= reading.count => "count".to_owned(),
            Ok(()) => "time".to_owned(),
        };
        writeln!(out, "{{\"topic\":\"{}\",\"end\":\"{end}\"}}", reading.name).unwrap();
        out.flush().unwrap();
        drop(ended);
    }
}
