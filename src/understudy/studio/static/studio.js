/* Everything works without this file. With it, what follows from a design is shown while one types, and what runs in the background tells how far it is. */
(function () {
  "use strict";
  var alertBox = document.getElementById("alert");
  if (alertBox) { alertBox.focus(); }

  var form = document.querySelector("form[data-preview]");
  var target = document.getElementById("consequences");
  var waiting = null, asked = 0;
  function preview() {
    var number = ++asked;
    var body = new URLSearchParams(new FormData(form));
    body.set("action", "preview");
    fetch(form.dataset.preview, { method: "POST", body: body, credentials: "same-origin" })
      .then(function (answer) { return answer.text(); })
      .then(function (text) { if (number === asked) { target.innerHTML = text; poll(); } })
      .catch(function () { /* the studio was stopped: the page stays as it is */ });
  }
  if (form && target) {
    form.addEventListener("input", function () { clearTimeout(waiting); waiting = setTimeout(preview, 350); });
  }

  var timer = null;
  function look(place) {
    return fetch(place.dataset.poll, { credentials: "same-origin" })
      .then(function (answer) { return answer.text(); })
      .then(function (text) {
        var box = document.createElement("div");
        box.innerHTML = text;
        var running = box.querySelector("[data-poll]") !== null;
        place.replaceWith.apply(place, Array.prototype.slice.call(box.childNodes));
        return running;
      });
  }
  function poll() {
    clearTimeout(timer);
    var places = Array.prototype.slice.call(document.querySelectorAll("[data-poll]"));
    if (!places.length) { return; }
    timer = setTimeout(function () {
      Promise.all(places.map(look))
        .then(function (running) {
          if (running.every(Boolean)) { poll(); } else if (form && target) { preview(); } else { location.reload(); }
        })
        .catch(function () { });
    }, 1000);
  }
  poll();
})();
