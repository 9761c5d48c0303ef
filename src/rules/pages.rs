//! Each rule's page: meaning, impact, diagnosis, mitigation, prevention.
//!
//! The texts lie beside, one markdown file per rule, and are part of the binary.

/// The page of a rule, by the rule's name.
pub fn page(rule: &str) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| *name == rule).map(|(_, page)| *page)
}

macro_rules! pages {
    ($($rule:literal),* $(,)?) => {
        &[$(($rule, include_str!(concat!("pages/", $rule, ".md")))),*]
    };
}

const PAGES: &[(&str, &str)] = pages![
    "aborted-transaction-holder",
    "blocked-waiters",
    "carried-lock",
    "hidden-deadlock",
    "hidden-sessions",
    "holder-count",
    "idle-holder",
    "idle-in-transaction-holder",
    "key-collision",
    "key-hoard",
    "lease-overdue",
    "lock-cycle",
    "lock-table-full",
    "lock-table-pressure",
    "overlong-hold",
    "pool-starved",
    "pooler-session-lock",
    "prepared-transaction-holder",
    "scope-violation",
    "shared-key",
    "standby-lock",
    "unexpected-holder",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::ALL;

    #[test]
    fn every_rule_has_a_page_with_its_five_headings_in_order() {
        for rule in ALL {
            let page = page(rule.name()).unwrap_or_else(|| panic!("{} has no page", rule.name()));
            assert!(page.starts_with(&format!("# {}\n", rule.name())), "{}: its title", rule.name());
            let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            assert_eq!(
                headings,
                ["Meaning", "Impact", "Diagnosis", "Mitigation", "Prevention"],
                "{}: its headings",
                rule.name()
            );
        }
        assert_eq!(PAGES.len(), ALL.len(), "a page without a rule");
    }

    #[test]
    fn no_page_tempts_to_what_does_not_help() {
        for (rule, page) in PAGES {
            assert!(!page.contains("pg_advisory_unlock("), "{rule}: unlocking from another session frees nothing");
            let blocks: Vec<&str> = page.split("```").collect();
            assert_eq!(blocks.len() % 2, 1, "{rule}: an open block");
            let typed = blocks.iter().skip(1).step_by(2).flat_map(|block| block.lines());
            assert!(typed.into_iter().all(|line| line.len() <= 110), "{rule}: a long line to type");
        }
        let prepared = page("prepared-transaction-holder").unwrap();
        assert!(!prepared.contains("pg_terminate_backend"), "there is no session to end");
    }
}
