use super::keys::nearest;
use super::{Experiment, ExperimentKey, Params, Value, ValueError, Varied};
use crate::design::space_filling;

/// What the user wants otherwise.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `key=value,value,…` of `--set`, in order; several keys multiply, values of one key that comes several
    /// times add up.
    pub set: Vec<(String, String)>,
    /// Points of a space-filling design.
    pub points: Option<u32>,
}

/// Why there are no points.
pub type PointsError = ValueError;

impl Overrides {
    /// Reads `key=value,value,…`.
    ///
    /// # Errors
    /// When there is no `=`.
    pub fn parse(words: &[String]) -> Result<Self, PointsError> {
        let mut set = Vec::new();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                ValueError(format!("`{word}` sets nothing: write KEY=VALUE, like loss=0.5%"))
            })?;
            set.push((key.trim().to_owned(), value.to_owned()));
        }
        Ok(Self { set, points: None })
    }
}

impl Experiment {
    /// The points of a run: the experiment's own, or what `overrides` makes of them.
    ///
    /// A key that is set takes just the values given. Setting a key that the experiment varies leaves its
    /// other variations out: `--set loss=1%` asks for the baseline at that loss, not for all others beside
    /// it.
    ///
    /// # Errors
    /// When a key or value is not known, naming the nearest one.
    pub fn points(&self, overrides: &Overrides) -> Result<Vec<Params>, PointsError> {
        let mut sets: Vec<(&'static ExperimentKey, Vec<Value>)> = Vec::new();
        for (name, texts) in &overrides.set {
            let (key, scale) = self.key(name)?;
            let at = sets.iter().position(|(other, _)| other.name == key.name).unwrap_or(sets.len());
            if at == sets.len() {
                sets.push((key, Vec::new()));
            }
            for text in split(key, texts) {
                let value = key.read(&text).map_err(|error| slip(key, texts, error))?;
                let value = scaled(value, scale);
                if !sets[at].1.iter().any(|other| is_same(other, &value)) {
                    sets[at].1.push(value);
                }
            }
        }
        let given: Vec<&str> = sets.iter().map(|(key, _)| key.name).collect();
        let is_set = |name: &str| given.contains(&name);

        let mut points = self.varied_points(overrides.points, &is_set)?;
        for (name, texts) in self.crossed {
            let key = ExperimentKey::find(name)?;
            if !is_set(name) {
                let values = split(key, texts).iter().map(|text| key.read(text)).collect::<Result<_, _>>()?;
                sets.push((key, values));
            }
        }
        // Later keys change fastest, the crossed ones last: modes of one point stand together.
        for (key, values) in &sets {
            points = points
                .into_iter()
                .flat_map(|point| {
                    values.iter().map(move |value| {
                        let mut point = point.clone();
                        point.put(key, value.clone());
                        point
                    })
                })
                .collect();
        }
        Ok(points)
    }

    fn varied_points(
        &self,
        count: Option<u32>,
        is_set: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Params>, PointsError> {
        let base = self.base();
        match self.varied {
            Varied::OneByOne(keys) => {
                if count.is_some() {
                    return Err(ValueError(format!(
                        "{} has no design of points; leave --points out, or set keys",
                        self.name
                    )));
                }
                let mut points = vec![base.clone()];
                if keys.iter().any(|(name, _)| is_set(name)) {
                    return Ok(points);
                }
                for (name, texts) in keys {
                    let key = ExperimentKey::find(name)?;
                    for text in split(key, texts) {
                        let mut point = base.clone();
                        point.set(key, &text)?;
                        if !points.contains(&point) {
                            points.push(point);
                        }
                    }
                }
                Ok(points)
            }
            Varied::Space { points, ranges } => {
                let free: Vec<_> = ranges.iter().filter(|(name, ..)| !is_set(name)).collect();
                let count = count.unwrap_or(points);
                if free.is_empty() {
                    return Ok(vec![base]);
                }
                let mut all = Vec::new();
                for place in space_filling(free.len(), count as usize) {
                    let mut point = base.clone();
                    for ((name, least, most), share) in free.iter().zip(place) {
                        // Four digits tell points apart, and can be read.
                        let value = least + share * (most - least);
                        point.put(ExperimentKey::find(name)?, Value::Number(significant(value)));
                    }
                    all.push(point);
                }
                Ok(all)
            }
        }
    }

    /// A key that this experiment has, and by how much values are to be multiplied when it has it in another
    /// unit.
    fn key(&self, name: &str) -> Result<(&'static ExperimentKey, f64), PointsError> {
        let (name, scale) = match name {
            "owd_ms" if !self.has("owd_ms") => ("rtt_ms", 2.0),
            "rtt_ms" if !self.has("rtt_ms") => ("owd_ms", 0.5),
            name => (name, 1.0),
        };
        if self.has(name) {
            return Ok((ExperimentKey::find(name)?, scale));
        }
        let names = self.baseline.iter().map(|(name, _)| *name);
        Err(ValueError(format!("{} has no key `{name}`; {}", self.name, nearest(name, names))))
    }
}

/// Several values: at semicolons if there are any; else the whole if it is one value (`ge:0.5%,25%`), else at
/// commas.
fn split(key: &ExperimentKey, texts: &str) -> Vec<String> {
    let at = if texts.contains(';') {
        ';'
    } else if key.read(texts).is_ok() {
        return vec![texts.to_owned()];
    } else {
        ','
    };
    texts.split(at).map(|text| text.trim().to_owned()).collect()
}

/// What is wrong with values of which a part does not fit: one model with commas (`burst:5,6`) is not
/// several.
fn slip(key: &ExperimentKey, texts: &str, of_part: ValueError) -> ValueError {
    let is_model = texts.contains(':') && texts.contains(',') && !texts.contains(';');
    match key.read(texts).err().filter(|_| is_model) {
        Some(of_whole) => ValueError(format!(
            "{of_whole}; between several values of which one has commas itself, write semicolons"
        )),
        None => of_part,
    }
}

fn scaled(value: Value, scale: f64) -> Value {
    match value {
        Value::Number(n) => Value::Number(n * scale),
        text @ Value::Text(_) => text,
    }
}

/// Whether two values are the same as they were meant: `0.7%` and `0.007` are not the same to the last bit.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => (a - b).abs() <= a.abs() * 1e-12,
        (a, b) => a == b,
    }
}

fn significant(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn values(name: &str, key: &str, words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let points = catalogue::find(name).unwrap().points(&Overrides::parse(&words).unwrap()).unwrap();
        points.iter().map(|point| point.text(key)).collect()
    }

    #[test]
    fn a_model_with_commas_is_told_what_is_wrong_with_it() {
        let slip = |word: &str| {
            let set = Overrides::parse(&[word.to_owned()]).unwrap();
            catalogue::find("screen-streaming").unwrap().points(&set).unwrap_err().to_string()
        };
        let long = slip("loss=burst:5,6");
        assert!(long.contains("longer than the block") && long.contains("semicolons"), "{long}");
        assert!(slip("loss=0.7%,ge:0.7%,33%").contains("semicolons"));
        assert!(slip("queue=codel:5ms,9MB").contains("the number of values is wrong"));
        // Of a list the value that does not fit.
        assert!(slip("loss=1%,x").contains("`loss=x` does not fit"));
    }

    #[test]
    fn values_of_a_key_that_is_set_several_times_are_joined() {
        let of = |words: &[&str]| {
            values(
                "screen-streaming",
                "loss",
                &[&["mode=partial", "profile=ours", "fec=none"], words].concat(),
            )
        };
        assert_eq!(of(&["loss=0.1%", "loss=1%"]), ["0.001", "0.01"]);
        assert_eq!(of(&["loss=1%,0", "updates=3", "loss=0.1%,1%"]), ["0.01", "0", "0.001"]);
        assert_eq!(of(&["loss=ge:0.5%,25%", "loss=1%"]), ["ge:0.5%,25%,100%,0%", "0.01"]);
        // Once, however it is written; 0.7 / 100 is not the number nearest to 0.007.
        assert_eq!(of(&["loss=0.5%,0.005"]), ["0.005"]);
        assert_eq!(of(&["loss=0.007", "loss=0.7%"]), ["0.007"]);
    }

    #[test]
    fn a_key_by_the_name_of_its_other_unit_is_the_same_key() {
        let crossed = ["mode=partial", "profile=ours", "fec=none"];
        let set = [&crossed[..], &["owd_ms=50,10", "rtt_ms=100,200"]].concat();
        assert_eq!(values("screen-streaming", "rtt_ms", &set), ["100", "20", "200"]);
    }
}
