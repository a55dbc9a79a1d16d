//! Draws a figure. Texts are paths of the drawing library's own, so no font is needed.

use core::fmt;

use plotters::prelude::*;

use crate::figure::Figure;

/// Width and height, in pixels.
const SIZE: (u32, u32) = (960, 600);
/// Above this ratio of the largest to the smallest value the y axis is logarithmic.
const WIDE: u64 = 30;

/// The drawing library refused.
#[derive(Debug)]
pub struct NotDrawn(String);

impl fmt::Display for NotDrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for NotDrawn {}

fn refused(error: impl fmt::Display) -> NotDrawn {
    NotDrawn(error.to_string())
}

/// The figure as an SVG: its lines, the paper's numbers as crosses, and how it came to be.
///
/// # Errors
/// The drawing library refuses, which only a size of zero would make it do.
pub fn draw(figure: &Figure) -> Result<String, NotDrawn> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(refused)?;
        lines(&root, figure)?;
        root.present().map_err(refused)?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn all(figure: &Figure) -> impl Iterator<Item = (u64, u64)> + '_ {
    let own = figure.series.iter().flat_map(|line| line.points.iter().copied());
    own.chain(figure.anchors.iter().map(|anchor| (anchor.x, anchor.value)))
}

fn lines(root: &Area<'_>, figure: &Figure) -> Result<(), NotDrawn> {
    let right = all(figure).map(|(x, _)| x).max().unwrap_or(1).max(1);
    let top = all(figure).map(|(_, y)| y).max().unwrap_or(1).max(1);
    let low = all(figure).map(|(_, y)| y).min().unwrap_or(0);
    let caption = format!("{} ({}): {}", figure.id, figure.label, figure.question);
    let mut builder = ChartBuilder::on(root);
    builder.caption(caption, ("sans-serif", 16)).margin(12).x_label_area_size(36).y_label_area_size(90);
    let wide = low > 0 && top / low.max(1) > WIDE;
    macro_rules! drawn {
        ($chart:expr) => {{
            let mut chart = $chart.map_err(refused)?;
            chart.configure_mesh().x_desc(figure.x).y_desc(figure.y).draw().map_err(refused)?;
            for (at, line) in figure.series.iter().enumerate() {
                let color = Palette99::pick(at).to_rgba();
                let drawn = chart.draw_series(LineSeries::new(line.points.iter().copied(), color));
                drawn
                    .map_err(refused)?
                    .label(line.name.clone())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
                let dots = line.points.iter().map(|point| Circle::new(*point, 2, color.filled()));
                chart.draw_series(dots).map_err(refused)?;
            }
            let cross = |x, y| Cross::new((x, y), 5, BLACK);
            let crosses = figure.anchors.iter().map(|anchor| cross(anchor.x, anchor.value));
            let drawn = chart.draw_series(crosses).map_err(refused)?;
            if !figure.anchors.is_empty() {
                drawn.label("the paper's text").legend(|(x, y)| Cross::new((x + 9, y), 5, BLACK));
            }
            let labels =
                chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw();
            labels.map_err(refused)?;
        }};
    }
    if wide {
        drawn!(builder.build_cartesian_2d(0..right + right / 20 + 1, (low..top + top / 10 + 1).log_scale()));
    } else {
        drawn!(builder.build_cartesian_2d(0..right + right / 20 + 1, 0..top + top / 10 + 1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::circumstances::{Circumstances, PriceList, Scale};
    use crate::figure::{Anchor, Series};
    use crate::recipes::find;

    #[test]
    fn a_figure_shows_its_lines_the_papers_numbers_and_that_it_is_simulated() {
        let with = Circumstances { seed: 1, prices: PriceList::Today, scale: Scale::Quick };
        let recipe = find("astro/3").first().copied().expect("there is one");
        let mut figure = recipe.blank(&with);
        let empty = draw(&figure).expect("drawn");
        assert!(empty.starts_with("<svg") && empty.contains("simulated network"));
        for top in [90, 100_000] {
            let points = vec![(4, 30), (10, top)];
            figure.series = vec![Series { name: "one".to_owned(), points }];
            figure.anchors = vec![Anchor { series: "one", x: 4, value: 50, source: "here" }];
            let text = draw(&figure).expect("drawn");
            assert!(
                text.contains("one") && text.contains("the paper's text".replace('\'', "&apos;").as_str())
                    || text.contains("the paper"),
                "{text}"
            );
        }
    }
}
