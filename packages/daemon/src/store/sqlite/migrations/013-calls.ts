/** The last model calls are looked at to see whether a credential is refused. */
export const calls = `
create index event_calls on event (pos) where type = 'usage';
`
