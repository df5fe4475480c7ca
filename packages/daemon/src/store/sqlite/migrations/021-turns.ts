/** What turns are counted by is looked up by session, however long its log is. */
export const turns = `
create index event_turns on event (session_id, seq) where type in ('prompt', 'turn.started', 'usage');
`
