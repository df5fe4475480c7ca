/** What a session has open is found without what it ever asked. */
export const openRequests = `
create index request_open_of on request (session_id, opened_at) where answer is null;
`
