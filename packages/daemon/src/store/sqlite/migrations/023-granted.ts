/** Which sessions have entries in the access lists of the host's folders is asked at every start. */
export const granted = `
create index session_granted on session (id) where grants <> '[]';
`
