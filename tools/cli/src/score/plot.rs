//! The figure of the history: seeds, plants found and hours of chaos, each on axes of its own.

use plotters::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::error::Error;

/// Width and height, in pixels.
const SIZE: (u32, u32) = (900, 900);

/// A row that is drawn.
struct Panel {
    title: &'static str,
    key: &'static str,
    /// How many units of the parts make one of the axis; 0 where the row does not sum.
    units: u32,
}

const PANELS: [Panel; 3] = [
    Panel { title: "seeds run, all gates together (simulated)", key: "sim.seeds", units: 1 },
    Panel { title: "planted bugs found from fresh seeds, per gate (simulated)", key: "plant.all", units: 0 },
    Panel { title: "hours of chaos, all gates together (real processes)", key: "chaos.hours", units: 3_600 },
];

/// Draws the history as an SVG. The x axis counts its lines.
///
/// # Errors
/// The drawing library refuses, which only a size of zero would make it do.
pub(crate) fn svg(history: &[Map<String, Value>]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        for (panel, area) in PANELS.iter().zip(root.split_evenly((PANELS.len(), 1))) {
            draw(&area, panel, &points(history, panel))?;
        }
        root.present()?;
    }
    Ok(text)
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    panel: &Panel,
    points: &[(f64, f64)],
) -> Result<(), Box<dyn Error>> {
    let right = points.last().map_or(1.0, |(x, _)| x.max(1.0));
    let top = points.iter().map(|(_, y)| *y).fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..right * 1.02, 0.0..top)?;
    chart.configure_mesh().x_desc("gate").x_label_formatter(&|x| format!("{x:.0}")).draw()?;
    chart.draw_series(LineSeries::new(points.iter().copied(), &BLUE))?;
    chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, BLUE.filled())))?;
    Ok(())
}

/// One point per line that has the row; sums grow from line to line, each run counted once.
fn points(history: &[Map<String, Value>], panel: &Panel) -> Vec<(f64, f64)> {
    let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut points = Vec::new();
    for (index, score) in history.iter().enumerate() {
        let Some(row) = score.get("rows").and_then(|rows| rows.get(panel.key)) else { continue };
        let x = index as f64 + 1.0;
        if panel.units == 0 {
            points.extend(row.get("value").and_then(Value::as_f64).map(|value| (x, value)));
        } else if let Some(added) = row.get("parts").and_then(Value::as_object) {
            parts.extend(added.iter().map(|(run, count)| (run.as_str(), count.as_u64().unwrap_or(0))));
            points.push((x, parts.values().sum::<u64>() as f64 / f64::from(panel.units)));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn history() -> Vec<Map<String, Value>> {
        let line = |seeds: Value, plants: Value, seconds: Value| {
            let rows = json!({
                "sim.seeds": { "parts": seeds }, "plant.all": { "value": plants }, "chaos.hours": { "parts": seconds },
            });
            serde_json::from_value(json!({ "rows": rows })).expect("an object")
        };
        vec![
            line(json!({ "a": 100 }), json!(30), json!({ "c": 3600 })),
            line(json!({ "a": 100, "b": 50 }), Value::Null, Value::Null),
            line(json!({ "b": 50, "d": 5 }), json!(33), json!({ "e": 1800 })),
        ]
    }

    #[test]
    fn sums_grow_and_a_line_without_a_figure_has_no_point() {
        let [seeds, plants, hours] = PANELS.map(|panel| points(&history(), &panel));
        assert_eq!(seeds, [(1.0, 100.0), (2.0, 150.0), (3.0, 155.0)]);
        assert_eq!(plants, [(1.0, 30.0), (3.0, 33.0)]);
        assert_eq!(hours, [(1.0, 1.0), (3.0, 1.5)]);
    }

    #[test]
    fn kinds_have_axes_of_their_own_also_without_any_history() {
        for past in [history(), Vec::new()] {
            let text = svg(&past).expect("drawn");
            assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
            assert!(PANELS.iter().all(|panel| text.contains(panel.title)), "{text}");
        }
    }
}
