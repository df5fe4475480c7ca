/** What agents did and what was decided upon is looked up together, to see what another policy would have made of it. */
export const policy = `
create index event_acts on event (pos) where type in ('tool.started', 'decision');
`
