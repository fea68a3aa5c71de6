"""Reviews: questions between the API server and others (AdmissionReview, TokenReview, SubjectAccessReview)."""
