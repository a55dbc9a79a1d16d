//! The recipes by name.

use super::{joins, robust, throughput};
use crate::circumstances::Circumstances;
use crate::figure::Figure;

/// What a recipe runs.
pub(super) type Run = fn(&Circumstances, &mut dyn FnMut(&str)) -> Result<Figure, String>;

/// One experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// PAPER/FIGURE.
    pub id: &'static str,
    /// Where the paper has it.
    pub paper: &'static str,
    /// What it asks.
    pub question: &'static str,
    pub(super) run: Run,
}

impl Recipe {
    /// Runs it; tells progress.
    ///
    /// # Errors
    /// What broke, in words: a machine that broke a rule of the simulator, or a join that never ended.
    pub fn run(&self, circumstances: &Circumstances, tell: &mut dyn FnMut(&str)) -> Result<Figure, String> {
        (self.run)(circumstances, tell)
    }

    /// A figure of this recipe without lines.
    pub(crate) fn blank(&self, circumstances: &Circumstances) -> Figure {
        Figure {
            id: self.id.to_owned(),
            paper: self.paper.to_owned(),
            question: self.question.to_owned(),
            label: "simulated network",
            circumstances: circumstances.words(),
            x: "",
            y: "",
            series: Vec::new(),
            anchors: Vec::new(),
            expectations: Vec::new(),
            differs: Vec::new(),
            beside: Vec::new(),
        }
    }
}

/// All of them.
pub const RECIPES: &[Recipe] =
    &[throughput::BY_SIZE, throughput::LATENCY, robust::CRASH, robust::DELAY, robust::LARGE, joins::JOINS];

/// The recipes of a name: one, all of a paper, or all.
#[must_use]
pub fn find(name: &str) -> Vec<Recipe> {
    let is_of =
        |recipe: &&Recipe| name == "all" || recipe.id == name || recipe.id.split('/').next() == Some(name);
    RECIPES.iter().filter(is_of).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::{RECIPES, find};

    #[test]
    fn a_name_is_one_recipe_or_those_of_a_paper() {
        assert_eq!(find("astro/5").len(), 1);
        assert_eq!(find("astro").len(), RECIPES.len());
        assert!(find("astro/1").is_empty() && find("").is_empty());
    }
}
