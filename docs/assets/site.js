// The theme gives its search dialog no name; screen readers need one.
document.querySelectorAll('.md-search[role=dialog]').forEach(function(part){part.setAttribute('aria-label','Search')});
