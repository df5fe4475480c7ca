/** Which repository a folder of the host came from, as it was before the first cell was in it; null where that was not known then. */
export const folders = `
create table folder (path text primary key, repo text) strict;
insert or ignore into folder (path, repo) select distinct workspace, null from session;
`
