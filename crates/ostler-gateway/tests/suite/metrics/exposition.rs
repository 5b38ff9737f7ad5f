//! A strict reader of the text format of Prometheus (0.0.4), which shares no code with what writes it.

use std::collections::{BTreeMap, HashSet};

/// What was read. Samples are keyed as they are written, without spaces.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    families: BTreeMap<String, Family>,
    samples: BTreeMap<String, Sample>,
}

type Labels = Vec<(String, String)>;

#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

impl Exposition {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        let mut read = Self::default();
        // Samples of one family stand together, after its description.
        let (mut current, mut closed): (String, HashSet<String>) = Default::default();
        for line in text.lines() {
            let failed = |why: &str| format!("{why}: `{line}`");
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').ok_or_else(|| failed("no help"))?;
                if name != current {
                    closed.insert(std::mem::replace(&mut current, name.to_owned()));
                }
                let family = Family { help: help.to_owned(), ..Family::default() };
                if closed.contains(name) || read.families.insert(name.to_owned(), family).is_some() {
                    return Err(failed("a second description"));
                }
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').ok_or_else(|| failed("no type"))?;
                let family = read.families.get_mut(name).ok_or_else(|| failed("a type before its help"))?;
                if !["counter", "gauge", "histogram"].contains(&kind) || !family.kind.is_empty() {
                    return Err(failed("a wrong or a second type"));
                }
                family.kind = kind.to_owned();
            } else {
                let sample = sample(line).map_err(|why| failed(&why))?;
                let family = read.families.get(&current).ok_or_else(|| failed("no description"))?;
                let suffixes: &[&str] =
                    if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                if !suffixes.iter().any(|suffix| sample.name == format!("{current}{suffix}")) {
                    return Err(failed("not of the family before it"));
                }
                if family.kind == "counter" && !(sample.name.ends_with("_total") && sample.value >= 0.0) {
                    return Err(failed("not a counter"));
                }
                let key = line.rsplit_once(' ').map_or(line, |(key, _)| key).to_owned();
                if read.samples.insert(key, sample).is_some() {
                    return Err(failed("a second time"));
                }
            }
        }
        read.check_histograms()?;
        Ok(read)
    }

    /// Buckets only grow, end with all, and all are as many as are counted.
    fn check_histograms(&self) -> Result<(), String> {
        let mut buckets: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
        for sample in self.samples.values() {
            let Some(name) = sample.name.strip_suffix("_bucket") else { continue };
            let mut labels = sample.labels.clone();
            let end = labels.iter().position(|(label, _)| label == "le").ok_or("a bucket without an end")?;
            let (_, end) = labels.remove(end);
            let end = number(&end)?;
            buckets.entry((name.to_owned(), labels)).or_default().push((end, sample.value));
        }
        for ((name, labels), mut ends) in buckets {
            ends.sort_by(|one, other| one.0.total_cmp(&other.0));
            let is_growing = ends.windows(2).all(|pair| pair[0].1 <= pair[1].1);
            let of = |part: &str| {
                let is_it =
                    |sample: &&Sample| sample.name == format!("{name}_{part}") && sample.labels == labels;
                self.samples.values().find(is_it).map(|sample| sample.value)
            };
            let last = ends.last().filter(|(end, _)| end.is_infinite()).map(|(_, count)| *count);
            if !is_growing || last.is_none() || last != of("count") || of("sum").is_none() {
                return Err(format!("{name} {labels:?} is no histogram: {ends:?}"));
            }
        }
        Ok(())
    }

    /// The value of a sample, by its name and its labels as they are written.
    pub(super) fn value(&self, sample: &str) -> Option<f64> {
        self.samples.get(sample).map(|sample| sample.value)
    }

    pub(super) fn has_label(&self, name: &str, value: &str) -> bool {
        let is_it = |(label, has): &(String, String)| label == name && has == value;
        self.samples.values().any(|sample| sample.labels.iter().any(is_it))
    }

    /// Every name with its type, its labels and its help, a line each.
    pub(super) fn described(&self) -> String {
        let line = |(name, family): (&String, &Family)| {
            let is_its = |sample: &&Sample| {
                let rest = sample.name.strip_prefix(name.as_str());
                rest.is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
            };
            let labels: Vec<&str> = self.samples.values().find(is_its).map_or(Vec::new(), |sample| {
                sample.labels.iter().map(|(label, _)| label.as_str()).filter(|label| *label != "le").collect()
            });
            format!("{} {name}{{{}}}: {}\n", family.kind, labels.join(","), family.help)
        };
        self.families.iter().map(line).collect()
    }
}

/// `name{label="value",…} value`
fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'));
    let (name, rest) = line.split_at(end.ok_or("no value")?);
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return Err("no name".to_owned());
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = number(rest.strip_prefix(' ').ok_or("no space before the value")?)?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

fn labels(text: &str) -> Result<(Labels, &str), String> {
    let (mut labels, mut rest) = (Labels::new(), text);
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if name.is_empty() || !name.chars().all(is_name) || labels.iter().any(|(label, _)| label == name) {
            return Err(format!("the label `{name}`"));
        }
        let (mut value, mut letters) = (String::new(), after.char_indices());
        let end = loop {
            match letters.next().ok_or("an open label")? {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next().ok_or("an open label")?.1 {
                    'n' => '\n',
                    letter @ ('\\' | '"') => letter,
                    letter => return Err(format!("the escape `\\{letter}`")),
                }),
                (_, letter) => value.push(letter),
            }
        };
        labels.push((name.to_owned(), value));
        rest = &after[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

fn number(text: &str) -> Result<f64, String> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        text => text.parse().map_err(|_| format!("`{text}` is no number")),
    }
}

#[test]
fn what_is_not_the_format_is_noticed() {
    let good = "# HELP a_total A.\n# TYPE a_total counter\na_total{b=\"c\\\"\"} 1\n";
    assert!(Exposition::parse(good).is_ok());
    for bad in [
        "a_total 1\n",
        "# HELP a_total A.\n# TYPE a_total counter\na_total{b=\"c} 1\n",
        "# HELP a_total A.\n# TYPE a_total counter\na_total{b=\"c\"} x\n",
        "# HELP a_total A.\n# TYPE a_total counter\nb_total 1\n",
        "# HELP a_total A.\n# TYPE a_total counter\na_total 1\na_total 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
    ] {
        assert!(Exposition::parse(bad).is_err(), "{bad}");
    }
}
