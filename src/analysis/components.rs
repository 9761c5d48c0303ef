//! Strongly connected components of a graph, by Tarjan's algorithm without recursion: a chain of waiters may be long.
//!
//! Knows vertices as numbers and nothing else.

/// The components of the graph with vertices `0..count`, each after all components that it has edges to.
pub(super) fn components<I>(count: usize, targets: impl Fn(usize) -> I) -> Vec<Vec<usize>>
where
    I: Iterator<Item = usize>,
{
    const NEW: usize = usize::MAX;
    let mut found = Vec::new();
    let mut index = vec![NEW; count];
    let mut low = vec![0; count];
    let mut on_stack = vec![false; count];
    let mut stack = Vec::new();
    let mut next = 0;
    for start in 0..count {
        if index[start] != NEW {
            continue;
        }
        let mut path: Vec<(usize, I)> = Vec::new();
        let mut enter = Some(start);
        loop {
            if let Some(v) = enter.take() {
                index[v] = next;
                low[v] = next;
                next += 1;
                stack.push(v);
                on_stack[v] = true;
                path.push((v, targets(v)));
            }
            let Some((v, edges)) = path.last_mut() else { break };
            let v = *v;
            if let Some(target) = edges.next() {
                if index[target] == NEW {
                    enter = Some(target);
                } else if on_stack[target] {
                    low[v] = low[v].min(index[target]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[*parent] = low[*parent].min(low[v]);
            }
            if low[v] == index[v] {
                let mut part = Vec::new();
                while let Some(w) = stack.pop() {
                    on_stack[w] = false;
                    part.push(w);
                    if w == v {
                        break;
                    }
                }
                found.push(part);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::components;

    #[test]
    fn targets_come_first_and_cycles_stay_together() {
        let edges = [vec![1], vec![2], vec![0, 3], vec![], vec![3]];
        let parts = components(5, |v| edges[v].iter().copied());
        let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(parts[0], [3]);
        assert_eq!(sizes, [1, 3, 1]);
        assert_eq!(parts[2], [4]);
    }

    #[test]
    fn a_long_chain_does_not_overflow() {
        let parts = components(200_000, |v| (v + 1 < 200_000).then_some(v + 1).into_iter());
        assert_eq!(parts.len(), 200_000);
        assert_eq!(parts[0], [199_999]);
    }
}
