//! Checks that neither the files nor the folders of a crate depend on each other in circles. Tests may use
//! any module.

use crate::source::{self, Modules, join};
use std::collections::{BTreeMap, BTreeSet};

/// Circles that are allowed: crate, modules, reason.
const EXCEPTIONS: [(&str, &[&str], &str); 0] = [];

/// The modules that each module uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// A path in code from the crate's root, step by step. An empty last step stands for a glob.
type ItemPath = Vec<String>;

/// Names that a module imports.
#[derive(Default)]
struct Imports {
    named: BTreeMap<String, ItemPath>,
    /// Modules that are imported with a glob.
    all_of: Vec<ItemPath>,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Parses the path or the group in braces at the start of `text`. Adds each path, prefixed with `before`, and
/// its alias to `paths`. Returns the text behind the parsed part.
fn expand<'t>(
    before: &[&'t str],
    text: &'t str,
    paths: &mut Vec<(Vec<&'t str>, Option<&'t str>)>,
) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            match rest.strip_prefix('}') {
                Some(behind) => return behind,
                None if rest.is_empty() => return rest,
                None => {
                    let behind = expand(before, rest, paths);
                    // Skip text that is not a path.
                    rest = if behind.len() == rest.len() {
                        &rest[rest.chars().next().map_or(0, char::len_utf8)..]
                    } else {
                        behind
                    };
                }
            }
        }
    }
    if let Some(rest) = text.strip_prefix('*') {
        paths.push(([before, &[""]].concat(), None));
        return rest;
    }
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    let path = [before, &[&text[..end]]].concat();
    if let Some(rest) = text[end..].strip_prefix("::")
        && rest.starts_with(|c: char| is_word(c) || c == '{' || c == '*')
    {
        return expand(&path, rest, paths);
    }
    let rest = &text[end..];
    let alias =
        rest.strip_prefix(" as ").map(|rest| &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]);
    paths.push((path, alias));
    rest
}

/// A crate's modules, and the names that each module imports.
struct Names<'m> {
    modules: &'m Modules,
    imports: BTreeMap<&'m str, Imports>,
}

impl<'m> Names<'m> {
    fn of(modules: &'m Modules) -> Names<'m> {
        let mut names = Names { modules, imports: BTreeMap::new() };
        for (module, code) in modules {
            let imports = names.imports_of(module, code);
            names.imports.insert(module, imports);
        }
        names
    }

    /// Converts a path in `module` to a path from the crate's root. Returns `None` if its first step is
    /// neither a module nor an import in `known`, because then the path leads out of the crate.
    fn absolute(&self, module: &str, path: &[&str], known: Option<&Imports>) -> Option<ItemPath> {
        let mut at: ItemPath =
            module.split("::").filter(|step| !step.is_empty()).map(str::to_owned).collect();
        let mut steps = path.iter().peekable();
        match **steps.peek()? {
            "crate" => at.clear(),
            "super" | "self" => {}
            first if self.modules.contains_key(&join(module, first)) => {}
            first => {
                at = known?.named.get(first)?.clone();
                steps.next();
            }
        }
        for step in steps {
            match *step {
                "crate" | "self" => {}
                "super" => drop(at.pop()?),
                step => at.push(step.to_owned()),
            }
        }
        Some(at)
    }

    fn imports_of(&self, module: &str, code: &str) -> Imports {
        let mut imports = Imports::default();
        for (at, _) in code.match_indices("use ") {
            if code[..at].ends_with(is_word) {
                continue;
            }
            let mut paths = Vec::new();
            expand(&[], &code[at + 4..], &mut paths);
            for (path, alias) in paths {
                let Some(absolute) = self.absolute(module, &path, None) else { continue };
                match (path.last(), path.iter().rev().nth(1)) {
                    (Some(&""), _) => imports.all_of.push(absolute[..absolute.len() - 1].to_vec()),
                    (Some(&"self"), Some(name)) | (Some(name), _) => {
                        drop(imports.named.insert(alias.unwrap_or(name).to_owned(), absolute));
                    }
                    (None, _) => {}
                }
            }
        }
        imports
    }

    /// The module that defines the item at the end of a path. Returns `None` if the path names a module.
    fn resolve(&self, path: &[String], depth: usize) -> Option<String> {
        let mut module = String::new();
        for (at, step) in path.iter().enumerate() {
            let inner = join(&module, step);
            if !step.is_empty() && self.modules.contains_key(&inner) {
                module = inner;
                continue;
            }
            let imports = self.imports.get(&*module).filter(|_| depth < 8 && !step.is_empty());
            let behind = &path[at + 1..];
            if let Some(target) =
                imports.and_then(|imports| imports.named.get(step)).filter(|target| *target != path)
            {
                return self.resolve(&[target, behind].concat(), depth + 1);
            }
            if self.defines(&module, step) {
                return Some(module);
            }
            let from_all = imports.into_iter().flat_map(|imports| &imports.all_of).find_map(|target| {
                let inner = self.resolve(&[&target[..], &path[at..]].concat(), depth + 1)?;
                self.defines(&inner, step).then_some(inner)
            });
            // Paths from the root may name macros of any module.
            let is_macro = |code: &str| code.contains(&format!("macro_rules! {step} "));
            let of_macro = || self.modules.iter().find(|(_, code)| module.is_empty() && is_macro(code));
            // An item that a macro generates belongs to the module that calls the macro.
            return from_all
                .or_else(|| of_macro().map(|(module, _)| module.clone()))
                .or((!module.is_empty()).then_some(module));
        }
        None
    }

    /// Whether an item of this name is in a module's own code.
    fn defines(&self, module: &str, name: &str) -> bool {
        let code = &self.modules[module];
        ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules!"].iter().any(
            |item| {
                let definition = format!("{item} {name}");
                code.match_indices(&definition)
                    .any(|(at, _)| !code[at + definition.len()..].starts_with(is_word))
            },
        )
    }

    /// The modules whose items `module` names.
    fn uses(&self, module: &str) -> BTreeSet<String> {
        let (code, imports) = (&self.modules[module], &self.imports[module]);
        let mut paths = Vec::new();
        for (at, _) in code.match_indices("::") {
            let before = &code[..at];
            let word = before.len()
                - before.chars().rev().take_while(|c| is_word(*c)).map(char::len_utf8).sum::<usize>();
            if word < at && !code[..word].ends_with("::") {
                expand(&[], &code[word..], &mut paths);
            }
        }
        let absolute = paths.iter().filter_map(|(path, _)| self.absolute(module, path, Some(imports)));
        let mut used: BTreeSet<String> = absolute.filter_map(|path| self.resolve(&path, 0)).collect();
        used.remove(module);
        used
    }

    fn graph(&self) -> Graph {
        self.modules.keys().map(|module| (module.clone(), self.uses(module))).collect()
    }
}

/// The modules that each module reaches. A module reaches itself only if it is in a circle.
fn reached(graph: &Graph) -> Graph {
    let from = |start: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(at) = next.pop() {
            next.extend(graph.get(at).into_iter().flatten().filter(|&other| seen.insert(other.clone())));
        }
        seen
    };
    graph.keys().map(|name| (name.clone(), from(name))).collect()
}

/// The circles, each with all its members.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let reached = reached(graph);
    let of = |name: &String| {
        let back = |other: &&String| reached.get(*other).is_some_and(|from| from.contains(name));
        reached[name].iter().filter(back).cloned().collect::<BTreeSet<_>>()
    };
    graph.keys().map(of).filter(|circle| !circle.is_empty()).collect()
}

/// For each folder, the graph of its direct files and folders.
fn by_folders(graph: &Graph) -> BTreeMap<String, Graph> {
    let mut all: BTreeMap<String, Graph> = BTreeMap::new();
    for (module, uses) in graph {
        for other in uses {
            let (mut folder, mut steps) = (String::new(), module.split("::").zip(other.split("::")));
            let parts = loop {
                match steps.next() {
                    Some((own, others)) if own == others => folder = join(&folder, own),
                    Some((own, others)) => break Some((own, others)),
                    None => break None,
                }
            };
            // Neither a folder's own file nor the root counts as a file in it.
            let Some((own, others)) = parts.filter(|(own, others)| !own.is_empty() && !others.is_empty())
            else {
                continue;
            };
            let inner = all.entry(folder.clone()).or_default();
            inner.entry(join(&folder, own)).or_default().insert(join(&folder, others));
        }
    }
    all
}

/// All circles of a crate, of files and of folders.
fn all_circles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let folders = by_folders(graph);
    circles(graph).into_iter().chain(folders.values().flat_map(circles)).collect()
}

/// The innermost member of a circle that is the module or contains it.
fn member<'c>(circle: &'c BTreeSet<String>, module: &str) -> Option<&'c String> {
    let within = |member: &&String| {
        let inner = module.strip_prefix(&***member);
        inner.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    circle.iter().filter(within).max_by_key(|member| member.len())
}

/// Describes a circle and the uses between its members.
fn shown(crate_name: &str, graph: &Graph, circle: &BTreeSet<String>) -> String {
    let of_root = |module: &str| if module.is_empty() { "(root)".to_owned() } else { module.to_owned() };
    let names = circle.iter().map(|name| of_root(name)).collect::<Vec<_>>().join(", ");
    let mut lines = format!("{crate_name}: {names}\n");
    for (module, uses) in graph {
        let Some(own) = member(circle, module) else { continue };
        let others = uses.iter().filter(|used| member(circle, used).is_some_and(|other| other != own));
        let others = others.map(|other| of_root(other)).collect::<Vec<_>>().join(", ");
        if !others.is_empty() {
            lines += &format!("    {} uses {others}\n", of_root(module));
        }
    }
    lines
}

/// Whether a circle is one of the exceptions.
fn is_exception(crate_name: &str, circle: &BTreeSet<String>) -> bool {
    EXCEPTIONS.iter().any(|(own, members, _)| {
        *own == crate_name && circle.iter().all(|member| members.contains(&&**member))
    })
}

#[test]
fn nothing_uses_what_uses_it() {
    assert!(EXCEPTIONS.len() <= 5);
    let mut failures = String::new();
    for (name, modules) in source::crates() {
        let graph = Names::of(&modules).graph();
        let circles = all_circles(&graph).into_iter().filter(|circle| !is_exception(&name, circle));
        failures.extend(circles.map(|circle| shown(&name, &graph, &circle)));
    }
    assert!(failures.is_empty(), "files or folders use each other\n{failures}");
}

#[test]
fn the_code_of_all_crates_is_found() {
    let crates = source::crates();
    let soft = Names::of(&crates["soft"]).graph();
    assert!(crates.len() > 15 && soft.len() > 100, "{} crates, {} modules of soft", crates.len(), soft.len());
    assert!(soft["queues::cq"].contains("rings::completions"), "{:?}", soft["queues::cq"]);
    assert!(soft.keys().all(|module| !module.starts_with("tests")), "tests are no part of the crate");
}

#[test]
fn circles_are_found() {
    let text = [
        ("", "mod a;\nmod d;\nmod f;\npub use f::F;\nuse d as e;"),
        ("a", "mod b;\nmod c;\nuse b::B;\nuse c::C;"),
        ("a::b", "use super::{C, c::{D, e::*}};\nfn h() { crate::d::g(); crate::e::g() }"),
        ("a::c", "use super::super::{d::{self, G}, x};\nstruct C;\nstruct D;\nfn i(_: d::H) {}"),
        ("d", "struct G;\nstruct H;"),
        ("f", "struct F;"),
    ];
    let mut all: Modules = text.map(|(m, t)| (m.to_owned(), t.to_owned())).into();
    let uses = |all: &Modules, module: &str| {
        Names::of(all).graph()[module].iter().cloned().collect::<Vec<_>>().join(" ")
    };
    let circles = |all: &Modules| {
        let circles = all_circles(&Names::of(all).graph());
        circles.iter().map(|c| c.iter().cloned().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(["a", "a::b", "a::c", "d"].map(|m| uses(&all, m)), ["a::b a::c", "a::c d", "d", ""]);
    assert_eq!(circles(&all), Vec::<String>::new());
    // A name that the root imports belongs to the module that defines it.
    all.insert("d".into(), "fn g(_: crate::F) {}".into());
    assert_eq!((uses(&all, "d"), circles(&all).len()), ("f".to_owned(), 0));
    all.insert("f".into(), "fn g(_: super::a::b::B) {}\nstruct F;".into());
    assert_eq!(circles(&all), ["a d f", "a::b a::c d f"]);
}
